"""Integrations: one module per framework. None of them is imported before it is used.

`wrap` serves the plain clients of `openai` and `anthropic`; `history`, `session_of` and `recalled` are for
what such a client returned.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from refold.errors import WrongType

if TYPE_CHECKING:
    from typing import Unpack

    from refold.integrations.conversation import AdapterOptions, Conversation
    from refold.registry.engine import Engine
    from refold.session import Session

C = TypeVar("C")
SDKS = {"openai": "refold.integrations.openai", "anthropic": "refold.integrations.anthropic"}
"""Packages whose clients can be wrapped → the module that wraps them."""


def wrap(client: C, *, session: str | None = None, **options: Unpack[AdapterOptions]) -> C:
    """A client of `openai` or `anthropic` for one conversation, with the same calls; the history stays
    inside the `window`. `preset`, `model` (for summaries; default: the digest) and `hooks` are the
    engine's; `store` and `session` say where the conversation is kept (default: a new one). The given
    client is unchanged; connections are shared, so a wrapper per conversation is cheap."""
    from refold.integrations.clients import wrapped
    from refold.integrations.conversation import Conversations
    from refold.loop import run

    sdk = _sdk(client)
    return wrapped(client, run(Conversations(**options).named(session)), sdk.ENDPOINTS)


def session_of(client: Any) -> Session:
    """The session of a wrapped client."""
    return _conversation(client).session


def engine_of(client: Any) -> Engine:
    """The engine of a wrapped client: undo, pin, recall."""
    return _conversation(client).engine


def history(client: Any, dialect: str | None = None) -> list[Any]:
    """The conversation as the model sees it, as a list to continue from: in another process, or to drop a
    list that has grown. `dialect`: `responses` for that API."""
    from refold.loop import run

    return run(_conversation(client).history(dialect or _name(client)))


def recalled(client: Any, call: Any) -> dict[str, Any] | None:
    """The answer to a call of the recall tool, ready for the list; None for another tool's call."""
    return _sdk(client).recalled(_conversation(client), call)


def _name(client: object) -> str:
    for kind in type(client).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in SDKS:
            return package
    raise WrongType(f"expected a client, got {type(client).__name__}: pass one of {' or '.join(SDKS)}")


def _sdk(client: object) -> Any:
    return import_module(SDKS[_name(client)])


def _conversation(client: Any) -> Conversation:
    from refold.integrations.clients import conversation_of

    found = conversation_of(client)
    if found is None:
        raise WrongType(f"this {type(client).__name__} is not wrapped: it comes from refold.wrap(…)")
    return found
