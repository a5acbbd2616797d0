"""Abridged history (A13–A16): what was asked, done and answered, one group per user message, and the XML-like
rendering of the `augment` design."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold.facts.check_results import check_run, summary, tells_of_failure
from refold.facts.tool_outcome import ToolOutcome, outcome_of, outcome_of_run
from refold.facts.tools import Names, actions
from refold.facts.words import typed
from refold.messages import Assistant, Bash, Call, Message, Result, User
from refold.session.toolnames import command_line, kind
from refold.text.frames import quote
from refold.text.truncate import middle
from refold.tokens.fitting import largest


class OutlineLimits(msgspec.Struct, frozen=True):
    """The `abridged_history_params` of A2, by their own names."""

    total_chars_limit: int = 10_000
    user_message_chars_limit: int = 1_000
    agent_response_chars_limit: int = 2_000
    action_chars_limit: int = 200
    num_files_modified_limit: int = 10
    num_files_created_limit: int = 10
    num_files_deleted_limit: int = 10
    num_files_viewed_limit: int = 10
    num_terminal_commands_limit: int = 10


class Group(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user message and everything up to the next one. Lists are in order and without repetitions."""

    entry_id: str = ""
    last_id: str = ""
    user: str = ""
    modified: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    viewed: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    failed: int = 0
    """How many calls ended in an error."""
    succeeded: bool = False
    """Something was done, and neither the last call nor the last test run ended badly."""
    response: str = ""
    """The agent's final text."""
    state: str = ""
    """Where there is none: `agent_was_interrupted` or `agent_continues`."""
    over: bool = False
    """It ended with an answer that was not broken off."""


_LISTS = {"view": "viewed", "modify": "modified", "create": "created", "delete": "deleted"}


def groups(
    sources: Iterable[tuple[str, Message]],
    *,
    continues: bool = True,
    names: Names | None = None,
) -> tuple[Group, ...]:
    """The groups of a stretch of the log. `continues`: the agent is still at work where it ends, so a last
    group without final text was not interrupted."""
    turns: list[list[tuple[str, Message]]] = []
    for entry_id, message in sources:
        if isinstance(message, User) or not turns:
            turns.append([])
        turns[-1].append((entry_id, message))
    known: set[str] = set()
    return tuple(_group(turn, known, names, goes_on=continues and turn is turns[-1]) for turn in turns)


def _group(
    turn: Sequence[tuple[str, Message]], known: set[str], names: Names | None, *, goes_on: bool
) -> Group:
    """One turn as it ended. `known`: files that it or an earlier one touched."""
    first_id, first = turn[0]
    user = (typed(first) or first.text) if isinstance(first, User) else ""
    lists: dict[str, dict[str, None]] = {name: {} for name in (*_LISTS.values(), "commands")}
    failed, ended_well, broken = 0, False, False
    for call, outcome in _ended([message for _, message in turn], names):
        failed += outcome.failed
        ended_well = not outcome.failed
        if kind(call.name, names) == "bash":
            _put(lists["commands"], command_line(call))
            if check_run(command_line(call)):
                broken = outcome.failed or tells_of_failure(summary(outcome.body).quote)
        for action in () if outcome.failed else actions(call, names=names):
            written = "modify" if action.path in known else "create"
            verb = action.verb if action.verb != "write" else written
            _put(lists[_LISTS[verb]], action.path)
            (known.discard if verb == "delete" else known.add)(action.path)
    replies = [message for _, message in turn if isinstance(message, Assistant)]
    aborted = bool(replies) and replies[-1].stop == "aborted"
    response = "" if not replies or replies[-1].calls or aborted else replies[-1].text.strip()
    state = "" if response else "agent_was_interrupted"
    if state and goes_on and not aborted:
        state = "agent_continues" if len(turn) > 1 or not user else ""
    return Group(
        entry_id=first_id,
        last_id=turn[-1][0],
        user=user,
        failed=failed,
        succeeded=ended_well and not broken,
        response=response,
        state=state,
        over=bool(response) and replies[-1].stop != "error",
        **{name: tuple(items) for name, items in lists.items()},
    )


def _ended(messages: Sequence[Message], names: Names | None) -> Iterator[tuple[Call, ToolOutcome]]:
    """Each call with how it ended, in the order of the answers; those without an answer come last."""
    waiting: dict[str, Call] = {}
    for message in messages:
        waiting.update((call.id, call) for call in message.calls)
        if isinstance(message, Result) and (call := waiting.pop(message.call_id, None)):
            yield call, outcome_of(message, kind(call.name, names))
        elif isinstance(message, Bash):
            yield Call("", "bash", {"command": message.command}), outcome_of_run(message)
    yield from ((call, ToolOutcome()) for call in waiting.values())


def _put(items: dict[str, None], item: str) -> None:
    items.pop(item, None)
    items[item] = None


_SECTIONS = (
    ("files_modified", "modified"), ("files_created", "created"), ("files_deleted", "deleted"),
    ("files_viewed", "viewed"), ("terminal_commands", "commands"),
)  # fmt: skip
_OWN_TAGS = (
    "user", "agent_", "files_", "terminal_commands", "supervisor", "abridged_history", "summary",
)  # fmt: skip


def xml(found: Sequence[Group], limits: OutlineLimits | None = None) -> str:
    """Augment's rendering (A13), newest groups within the limits (A14, A15), in order."""
    limits, blocks = limits or OutlineLimits(), list[str]()
    room = limits.total_chars_limit
    for group in reversed(found):
        made = block(_quoted(group), limits)
        room -= len(made)
        if room < 0:  # a later turn never disappears in favour of an earlier one
            break
        blocks.append(made)
    if found and not blocks:
        return _cut(_quoted(found[-1]), limits)
    return "\n".join(reversed(blocks))


def _quoted(group: Group) -> Group:
    """Its own texts cannot close a tag of ours."""
    texts = {name: quote(getattr(group, name), *_OWN_TAGS) for name in ("user", "response")}
    names = (*_LISTS.values(), "commands")
    lists = {name: tuple(quote(item, *_OWN_TAGS) for item in getattr(group, name)) for name in names}
    return msgspec.structs.replace(group, **texts, **lists)


def _cut(group: Group, limits: OutlineLimits) -> str:
    """One group within the limit of all: its texts and lists are cut harder, so that every tag that is opened
    is closed. Where not even its tags have room, nothing is left."""

    def at(share: int) -> str:
        smaller = {name: getattr(limits, name) * share // _WHOLE for name in limits.__struct_fields__}
        return block(group, OutlineLimits(**smaller))

    return at(largest(_WHOLE, lambda share: len(at(share)) <= limits.total_chars_limit))


_WHOLE = 1_000


def block(group: Group, limits: OutlineLimits) -> str:
    """One group as XML-like text."""
    done = [
        row
        for tag, name in _SECTIONS
        for row in _element(tag, _listed(getattr(group, name), getattr(limits, f"num_{tag}_limit"), limits))
    ]
    ended = _element("agent_response", [middle(group.response, limits.agent_response_chars_limit)])
    rows = [
        *_element("user", [middle(group.user, limits.user_message_chars_limit)]),
        *_element("agent_actions", done),
        *(ended or ([f"<{group.state}/>"] if group.state and limits.total_chars_limit else [])),
    ]
    return "\n".join(rows)


def _element(tag: str, rows: Sequence[str]) -> list[str]:
    """Rows between tags; nothing where there is nothing to say."""
    return [f"<{tag}>", *rows, f"</{tag}>"] if any(rows) else []


def _listed(items: Sequence[str], count: int, limits: OutlineLimits) -> list[str]:
    """The newest items of a list."""
    kept = items[max(len(items) - count, 0) :]
    return [middle(item.replace("\n", " "), limits.action_chars_limit) for item in kept]
