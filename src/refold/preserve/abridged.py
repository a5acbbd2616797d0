"""Abridged history (A13–A16): what was asked, done and answered, one group per user message, and the XML-like
rendering of the `augment` design."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from refold.messages import Assistant, Bash, Call, Message, Result, User
from refold.preserve.check_results import check_run, summary_line, tells_of_failure
from refold.preserve.tool_outcome import outcome_of
from refold.preserve.tools import Names, actions
from refold.preserve.words import typed
from refold.session.toolnames import command_line, kind
from refold.text.frames import without_tags
from refold.text.truncate import middle
from refold.tokens.fitting import largest


class Limits(msgspec.Struct, frozen=True):
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
    """Its last message is an answer that was not broken off."""


BROKEN_OFF = ("error", "aborted")


def groups(
    sources: Iterable[tuple[str, Message]],
    *,
    continues: bool = True,
    names: Names | None = None,
) -> tuple[Group, ...]:
    """The groups of a stretch of the log. `continues`: the agent is still at work where it ends, so a last
    group without final text was not interrupted."""
    found: list[Group] = []
    open_group: _Open | None = None
    known: set[str] = set()
    for entry_id, message in sources:
        if isinstance(message, User):
            if open_group:
                found.append(open_group.close("agent_was_interrupted"))
            open_group = _Open(entry_id, typed(message) or message.text, known, names)
        elif open_group is None:
            open_group = _Open(entry_id, "", known, names)
        if open_group and not isinstance(message, User):
            open_group.take(entry_id, message)
    if open_group:
        found.append(open_group.close("agent_continues" if continues else "agent_was_interrupted"))
    return tuple(found)


class _Open:
    """A group that is still being read."""

    def __init__(self, entry_id: str, user: str, known: set[str], names: Names | None) -> None:
        self.entry_id, self.last_id, self.user = entry_id, entry_id, user
        self.known, self.names = known, names
        self.lists: dict[str, dict[str, None]] = {
            name: {} for name in ("modified", "created", "deleted", "viewed", "commands")
        }
        self.calls: dict[str, Call] = {}
        self.response = ""
        self.acted = self.aborted = False
        self.failed = 0
        self.ended_well = False
        self.over = False
        self.broken = False
        """The newest test run or build failed, or its summary speaks of failures."""

    def take(self, entry_id: str, message: Message) -> None:
        self.last_id = entry_id
        self.over = isinstance(message, Assistant) and not message.calls and message.stop not in BROKEN_OFF
        if isinstance(message, Assistant):
            self.acted = True
            self.aborted = message.stop == "aborted"
            self.response = "" if message.calls or self.aborted else message.text.strip()
            for call in message.calls:
                self.calls[call.id] = call
        elif isinstance(message, Result):
            call = self.calls.pop(message.call_id, None)
            if call is not None:
                ended = outcome_of(message, kind(call.name, self.names))
                self._ended(call, failed=ended.failed)
                if check_run(command_line(call)):
                    self.broken = ended.failed or tells_of_failure(summary_line(ended.body))
        elif isinstance(message, Bash):
            self._ended(Call("", "bash", {"command": message.command}), failed=bool(message.exit_code))

    def close(self, state: str) -> Group:
        for call in self.calls.values():
            self._ended(call, failed=False)
        done = {name: tuple(items) for name, items in self.lists.items()}
        state = "agent_was_interrupted" if self.aborted else state
        state = "" if self.response or not (self.acted or state == "agent_was_interrupted") else state
        return Group(
            entry_id=self.entry_id, last_id=self.last_id, user=self.user, response=self.response,
            state=state, over=self.over, failed=self.failed,
            succeeded=self.ended_well and not self.broken, **done,
        )  # fmt: skip

    def _ended(self, call: Call, *, failed: bool) -> None:
        self.failed += failed
        self.ended_well = not failed
        runs = kind(call.name, self.names) == "bash"
        if runs:
            self._put("commands", command_line(call))
        for action in actions(call, names=self.names):
            if failed:
                continue
            known = action.path in self.known
            verb = action.verb if action.verb != "write" else ("modify" if known else "create")
            self._put(_LISTS[verb], action.path)
            (self.known.discard if verb == "delete" else self.known.add)(action.path)

    def _put(self, name: str, item: str) -> None:
        items = self.lists[name]
        items.pop(item, None)
        items[item] = None


_LISTS = {"view": "viewed", "modify": "modified", "create": "created", "delete": "deleted"}
_SECTIONS = (
    ("files_modified", "modified"), ("files_created", "created"), ("files_deleted", "deleted"),
    ("files_viewed", "viewed"), ("terminal_commands", "commands"),
)  # fmt: skip
_OWN_TAGS = (
    "user", "agent_", "files_", "terminal_commands", "supervisor", "abridged_history", "summary",
)  # fmt: skip


def xml(found: Sequence[Group], limits: Limits | None = None) -> str:
    """Augment's rendering (A13), newest groups within the limits (A14, A15), in order."""
    limits, blocks = limits or Limits(), list[str]()
    room = limits.total_chars_limit
    for group in reversed(found):
        made = block(group, limits)
        room -= len(made)
        if room < 0:  # a later turn never disappears in favour of an earlier one
            break
        blocks.append(made)
    if found and not blocks:
        return _cut(found[-1], limits)
    return "\n".join(reversed(blocks))


def _cut(group: Group, limits: Limits) -> str:
    """One group within the limit of all: its texts and lists are cut harder, so that every tag that is opened
    is closed. Where not even its tags have room, nothing is left."""

    def at(share: int) -> str:
        smaller = {name: getattr(limits, name) * share // _WHOLE for name in limits.__struct_fields__}
        return block(group, Limits(**smaller))

    return at(largest(_WHOLE, lambda share: len(at(share)) <= limits.total_chars_limit))


_WHOLE = 1_000


def block(group: Group, limits: Limits) -> str:
    """One group as XML-like text. Its own texts cannot close a tag of ours."""
    done = [
        row
        for tag, name in _SECTIONS
        for row in _element(tag, _listed(getattr(group, name), getattr(limits, f"num_{tag}_limit"), limits))
    ]
    ended = _element("agent_response", [_inside(group.response, limits.agent_response_chars_limit)])
    rows = [
        *_element("user", [_inside(group.user, limits.user_message_chars_limit)]),
        *_element("agent_actions", done),
        *(ended or ([f"<{group.state}/>"] if group.state and limits.total_chars_limit else [])),
    ]
    return "\n".join(rows)


def _element(tag: str, rows: Sequence[str]) -> list[str]:
    """Rows between tags; nothing where there is nothing to say."""
    return [f"<{tag}>", *rows, f"</{tag}>"] if any(rows) else []


def _listed(items: Sequence[str], count: int, limits: Limits) -> list[str]:
    """The newest items of a list."""
    kept = items[max(len(items) - count, 0) :]
    return [_inside(" ".join(item.split("\n")), limits.action_chars_limit) for item in kept]


def _inside(text: str, limit: int) -> str:
    return middle(without_tags(text, *_OWN_TAGS), max(limit, 0))
