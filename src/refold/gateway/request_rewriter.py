"""The request as it is sent upstream: folded, cleared, compacted, or with recalled messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from refold import entries as e
from refold import messages
from refold.compaction.details import words_left_out
from refold.compaction.plan import Plan
from refold.compaction.plan_context import PlanRequest as Outlook
from refold.engine.planner import on_replica
from refold.errors import DoesNotFit, OverflowAgain
from refold.gateway import client_compaction, compaction, ipc, open_sessions, replies, verbatim
from refold.gateway.auth import RequestRefused
from refold.gateway.client_compaction import (
    CompactionCall,
    CoveredHistory,
    compaction_call,
    is_candidate,
    told_until,
)
from refold.gateway.compaction import Expanded
from refold.gateway.context_management import (
    DEFAULT_TRIGGER,
    Compact,
    ContextEdits,
    cleared,
    context_edits_of,
)
from refold.gateway.model_routing import ModelRouting
from refold.gateway.open_sessions import OpenSession, OpenSessions, RecordedTurn
from refold.gateway.requests import COMPACT_PATH, WIRES, ConversationRequest, model_named, read_request, since
from refold.gateway.signed_reference import ReferenceSigner
from refold.gateway.verbatim import RenderedView, beyond_log, restore_custom_calls
from refold.messages import Message, result, user
from refold.recall import tool
from refold.recall.logs import index_of_path
from refold.registry.engine import Engine
from refold.session import Item, View, dialects
from refold.session.dialects.common import list_or_empty
from refold.session.edits import active_folds
from refold.session.history import History
from refold.session.invariants import repair
from refold.text.lenient_json import JsonObject
from refold.tokens.parts import part_strings
from refold.tools.task import COMPACT_TOOL_NAME, CompactArguments, compact_conversation

MAX_FOLDED_CHARACTERS, MAX_FOLDED_WINDOWS = 16 * 1024 * 1024, 8
"""Characters of a request, and characters for each token of its window, of which it may exceed one: folding
what exceeds both would keep all others waiting."""
FOLDED = "The older part of the conversation is folded now: what you see is shorter."
NOTHING_FOLDED = "Nothing was folded: there is nothing to leave out."
MAX_CACHE_MARKS = 4
"""Maximum number of blocks with `cache_control` that Anthropic allows."""


class RequestRewriter:
    def __init__(self, opening: ipc.WorkerSettings, open_sessions: OpenSessions) -> None:
        self.settings, self._open_sessions = opening.settings, open_sessions
        self.routing, self._signer = ModelRouting(opening.settings), ReferenceSigner(opening.secret)

    def read(self, request: ipc.ClientRequest) -> tuple[ConversationRequest | None, Expanded | None]:
        """The request, and its compaction items."""
        asked = read_request(request.path, request.raw, request.names, request.owner)
        if asked is not None and is_candidate(self.settings, request.raw):
            asked = client_compaction.referring(asked, self._open_sessions.holds)
        if asked is None or not compaction.is_marked(self.settings, request.path, request.raw):
            return asked, None
        expanded = compaction.expand_compactions(asked.dialect, asked.wire, self._signer, request.owner)
        return since(asked, expanded.items, expanded.reference), expanded

    async def to(self, question: ipc.RewriteRequest) -> tuple[ipc.FromWorker, RecordedTurn | None]:
        """The answer to a rewrite request; raises `RequestRefused` if nothing that fits can be made."""
        asked, expanded = self.read(question)
        if asked is None:
            return ipc.SendUpstream(number=question.number, done="pass unread"), None
        self._check_length(asked)
        if is_candidate(self.settings, question.raw) and (call := compaction_call(asked, question.raw)):
            if self.settings.notes and question.notes is None:
                return ipc.SendUpstream(number=question.number, notes=True), None
            answer = await self._record(question, call)
            if answer is not None:
                return answer, None
        edits = context_edits_of(asked.dialect, asked.body) if expanded is not None else None
        if edits is not None:
            asked.body.pop("context_management")
        compact = question.path == COMPACT_PATH or (expanded is not None and expanded.trigger)

        async def answered(opened: OpenSession) -> tuple[ipc.FromWorker, RecordedTurn | None]:
            if compact:
                return await self._compact(question, asked, opened), None
            return await self._prepare(question, asked, opened, edits)

        return await self._open_sessions.within(asked, answered)

    def _check_length(self, asked: ConversationRequest) -> None:
        """Raises `RequestRefused` where there is too much text to fold."""
        longest = max(MAX_FOLDED_CHARACTERS, MAX_FOLDED_WINDOWS * self.routing.of(asked.name))
        if asked.size <= longest:
            return
        characters = len(asked.beside) + sum(
            len(text) for message in asked.messages for part in message.parts for text in part_strings(part)
        )
        if characters > longest:
            text = f"prompt is too long: {characters:,} characters; at most {longest:,} can be folded"
            raise RequestRefused(400, text, "invalid_request_error", code="context_length_exceeded")

    async def _prepare(
        self,
        question: ipc.RewriteRequest,
        asked: ConversationRequest,
        opened: OpenSession,
        edits: ContextEdits | None,
    ) -> tuple[ipc.FromWorker, RecordedTurn]:
        turn, session = open_sessions.record_request(opened, asked), opened.session
        engine = self.routing.engine_for(asked.name)
        open_sessions.watched(opened, engine)
        if question.refused is not None:
            engine.failed(session, question.refused, model=asked.model)
        before = engine.view(session, system=asked.beside).tokens
        fold = await self._requested_fold(asked, opened, edits.compact, before) if edits else None
        preset = engine.preset_for(session, asked.model)
        if edits and not fold and asked.since is None and question.refused is None:
            wire, applied = cleared(asked.said, edits, lambda wire: _tokens(engine, asked, wire))
            if _tokens(engine, asked, wire) <= preset.budget:
                return self._order(question, asked, wire, "pass", applied=applied), turn
        view = await self._fitting(engine, asked, opened)
        turn.leaf = session.leaf
        if fold is not None and edits and edits.compact and edits.compact.pause_after_compaction:
            item, stream = self._item(question, asked, opened, view), bool(asked.body.get("stream"))
            paused = compaction.compaction_message(item, asked.name, stream=stream)
            return _compacted(question, paused, before, view.tokens), turn
        # A fold that puts nothing in the place of what it takes shows in no item.
        folded = bool(active_folds(session.path)) or not all(item.entries for item in view.items)
        shown = verbatim.render_verbatim(view, turn, session, preset.window - view.tokens)
        folded = folded or shown.dropped > 0
        if not folded and asked.since is None and edits is None:
            if not self.settings.compact_tool:
                return ipc.SendUpstream(number=question.number), turn
            turn.sent = len(asked.wire)
            return self._order(question, asked, asked.said, "pass"), turn
        tokens = view.tokens + shown.more
        wire, done = request_messages(shown, asked), f"fold {before + shown.more + shown.dropped} {tokens}"
        if left_out := words_left_out(session.path):
            done += f" words_left_out={left_out}"
        applied = None
        if edits is not None:
            wire, applied = cleared(wire, edits, lambda wire: _tokens(engine, asked, wire))
        turn.sent = asked.prompts + len(wire)
        item = None if fold is None else self._item(question, asked, opened, view)
        return self._order(question, asked, wire, done if folded else "pass", applied, item, fold), turn

    async def _requested_fold(
        self, asked: ConversationRequest, opened: OpenSession, compact: Compact | None, tokens: int
    ) -> e.Fold | None:
        """Folds from the size on that the client set."""
        if compact is None:
            return None
        usual = DEFAULT_TRIGGER if asked.dialect == "anthropic" else self.routing.of(asked.name) * 3 // 4
        trigger = compact.trigger.value if compact.trigger else usual
        if tokens < trigger:
            return None
        return await self._folded(asked, opened, trigger, compact.instructions)

    async def _folded(
        self, asked: ConversationRequest, opened: OpenSession, at_most: int, instructions: str | None = None
    ) -> e.Fold | None:
        """Folds because the client asked for it, however much room the window has."""
        engine = self.routing.engine_for(asked.name, at_most)
        wanted: dict[str, Any] = {"force": True, "system": asked.beside, "instructions": instructions}
        try:
            plan = await engine.planner.planned(opened.session, Outlook(**wanted))
        except DoesNotFit:  # nothing that could be taken out would make it small enough
            return None
        made = await engine.apply(opened.session, plan) if isinstance(plan, Plan) else None
        return made if isinstance(made, e.Fold) else None

    async def _fitting(self, engine: Engine, asked: ConversationRequest, opened: OpenSession) -> View:
        """The view, if it fits the window."""
        code = "context_length_exceeded"
        try:
            view = await engine.prepare(opened.session, system=asked.beside, model=asked.model)
        except (DoesNotFit, OverflowAgain) as error:
            text = (
                f"prompt is too long: {error}; a gateway's window is --window, or window in [gateway.models]"
            )
            raise RequestRefused(400, text, "invalid_request_error", code=code) from error
        window = engine.preset_for(opened.session, asked.model).window
        if view.tokens > window:
            text = f"prompt is too long: {view.tokens} tokens > {window} maximum, folded as far as possible"
            raise RequestRefused(400, text, "invalid_request_error", code=code)
        return view

    def _item(
        self, question: ipc.RewriteRequest, asked: ConversationRequest, opened: OpenSession, view: View
    ) -> JsonObject:
        assert opened.session.leaf is not None
        signed = self._signer.sign(opened.session.id, opened.session.leaf, question.owner)
        return compaction.item_of(asked.dialect, signed, view)

    def _order(
        self,
        question: ipc.RewriteRequest,
        asked: ConversationRequest,
        wire: Sequence[JsonObject],
        done: str,
        applied: list[JsonObject] | None = None,
        item: JsonObject | None = None,
        fold: e.Fold | None = None,
    ) -> ipc.SendUpstream:
        folded = done.startswith("fold")
        ours = [tool.SPEC] if folded and self.settings.recall else []
        ours += [compact_conversation.spec] if self.settings.compact_tool else []
        ours = ours if asked.body.get("n") in (None, 1) else []
        for own in ours:
            [spec] = dialects.get(asked.dialect).render_tools([own])
            asked = asked.with_tool(spec, own.name)
        managed = applied if asked.dialect == "anthropic" else None
        usage = compaction.fold_usage(fold)
        extras = None
        if ours or item is not None or managed is not None:
            names = tuple(own.name for own in ours)
            extras = ipc.Extras(dialect=asked.dialect, item=item, usage=usage, applied=managed, ours=names)
        counts = (*(("folded",) if folded else ()), *(("compacted",) if item is not None else ()))
        body = asked.with_messages(wire)
        return ipc.SendUpstream(number=question.number, body=body, done=done, extras=extras, counts=counts)

    async def _compact(
        self, question: ipc.RewriteRequest, asked: ConversationRequest, opened: OpenSession
    ) -> ipc.ReadyAnswer:
        """Folds for a compaction request and returns a reference to the result."""
        open_sessions.record_request(opened, asked)
        session, engine = opened.session, self.routing.engine_for(asked.name)
        before = engine.view(session, system=asked.beside).tokens
        await self._folded(asked, opened, before)
        view = engine.view(session, system=asked.beside)
        if session.leaf is None:
            raise RequestRefused(400, "there is nothing to compact", "invalid_request_error")
        item = self._item(question, asked, opened, view)
        whole, stream = question.path == COMPACT_PATH, bool(asked.body.get("stream"))
        reference = compaction.item_response(
            item, asked.name, before, view.tokens, whole=whole, stream=stream
        )
        return _compacted(question, reference, before, view.tokens)

    async def _record(self, question: ipc.RewriteRequest, call: CompactionCall) -> ipc.ReadyAnswer | None:
        """A record of the conversation that answers a compaction call; None if none fits."""
        written = None if question.notes is None else replies.read_reply(call.asked.dialect, question.notes)
        notes = "" if written is None else client_compaction.notes_of(written.message.text)
        asked, engine = call.asked, self.routing.recorder(call.asked.name, notes)
        told = self._told_session(call) if call.row.told else None
        if told is not None:
            asked = msgspec.structs.replace(asked, session=told.session)
        elif call.row.told:
            return None

        async def made(opened: OpenSession) -> tuple[int, View, str | None]:
            session = opened.session
            if told is None:
                open_sessions.record_request(opened, asked)
            else:
                session.move(told.leaf)
                for each in client_compaction.told_results(call, session):
                    session.append(each)
            before = engine.view(session).tokens
            plan = await engine.planner.planned(session, Outlook(force=True))
            if isinstance(plan, Plan):
                await engine.apply(session, plan)
            view, leaf = engine.view(session), session.leaf
            return before, view, leaf and client_compaction.record_text(view, session, leaf, asked.owner)

        try:
            before, view, record = await self._open_sessions.within(asked, made)
        except DoesNotFit:
            return None
        if view.tokens > engine.preset.budget or not record:
            return None
        text, stream = call.row.answer.format(record=record), bool(asked.body.get("stream"))
        made_of, tokens = compaction.TEXTS[asked.dialect], engine.counter.text(text)
        answer = made_of(text, asked.name, tokens, stream=stream)
        return _compacted(question, answer, before, view.tokens)

    def _told_session(self, call: CompactionCall) -> CoveredHistory | None:
        """Of the sessions of the same name, the one that a call with the conversation as text covers best."""
        beside = self._open_sessions.beside(call.asked)
        return max(filter(None, (told_until(call, session) for session in beside)), default=None)

    async def recalled(self, packet: ipc.Recall, turn: RecordedTurn) -> ipc.SendUpstream:
        """The request with the model's reply and the recalled messages, taken from the path of this request
        even if the session has changed since."""
        dialect = dialects.get(turn.asked.dialect)
        reply = replies.read_reply(
            dialect.name,
            ipc.UpstreamReply(number=packet.number, status=200, kind=packet.kind, data=packet.said),
        )
        if reply is None:
            raise ValueError("a call that cannot be read")
        calls, body = reply.message.calls, msgspec.json.decode(packet.body, type=dict[str, Any])
        wanted = _instructions(calls)

        def answered(history: History) -> list[Message]:
            index = index_of_path(history, turn.leaf)
            recalled = [call for call in calls if call.name == tool.NAME]
            return [
                result(call.id, tool.tool_answer(index, call.arguments), name=tool.NAME) for call in recalled
            ]

        async def results(opened: OpenSession) -> list[Message]:
            told = [] if wanted is None else await self._compacted(turn, opened, wanted, calls, body)
            return [*await on_replica(opened.session, answered), *told]

        found = await self._open_sessions.within(turn.asked, results)
        # A list of messages begins with the user's: this one is not sent, its request is there already.
        items = repair([Item(message) for message in (user("…"), reply.message, *found)], dialect.name)
        more = request_messages(RenderedView(items), msgspec.structs.replace(turn.asked, wire=[]))[1:]
        body[dialect.field] = [*body[dialect.field], *more]
        return ipc.SendUpstream(number=packet.number, body=msgspec.json.encode(body), counts=("recalled",))

    async def _compacted(
        self,
        turn: RecordedTurn,
        opened: OpenSession,
        wanted: str,
        calls: Sequence[messages.Call],
        body: dict[str, Any],
    ) -> list[Message]:
        """Folds for a call of the compact tool and replaces what was sent with the new view; what came after
        stays. Returns the results of the calls."""
        asked, session = turn.asked, opened.session
        engine = self.routing.engine_for(asked.name)
        before = engine.view(session, system=asked.beside).tokens
        fold = await self._folded(asked, opened, before, wanted)
        if fold is not None and turn.leaf is not None:
            view = engine.view(session, system=asked.beside)
            turn.leaf = session.leaf
            shown = verbatim.render_verbatim(view, turn, session, engine.preset.window - view.tokens)
            field, wire = dialects.get(asked.dialect).field, request_messages(shown, asked)
            body[field] = [*asked.wire[: asked.prompts], *wire, *body[field][turn.sent :]]
            turn.sent = asked.prompts + len(wire)
        text = FOLDED if fold is not None else NOTHING_FOLDED
        own = [call for call in calls if call.name == COMPACT_TOOL_NAME]
        return [result(call.id, text, name=COMPACT_TOOL_NAME) for call in own]

    def fits(self, question: ipc.RewriteRequest) -> bool:
        """True if the body has fewer bytes than the window has tokens and nothing that must be read."""
        marked = compaction.is_marked(self.settings, question.path, question.raw)
        marked = marked or self.settings.compact_tool
        known = not marked and question.refused is None and not is_candidate(self.settings, question.raw)
        return known and len(question.raw) < self.routing.of(model_named(question.raw))

    def ahead(self, opened: OpenSession, asked: ConversationRequest) -> None:
        """Starts to prepare a fold if the next request will likely be too long."""
        if asked.size > self.routing.of(asked.name):
            engine = self.routing.engine_for(asked.name)
            open_sessions.watched(opened, engine).consider(Outlook(system=asked.beside, model=asked.model))


def _compacted(
    question: ipc.RewriteRequest, answer: tuple[bytes, str], before: int, after: int
) -> ipc.ReadyAnswer:
    """An answer of the gateway itself (its body and content type) to a request for compaction."""
    done, (body, kind) = f"compact {before} {after}", answer
    return ipc.ReadyAnswer(number=question.number, body=body, kind=kind, done=done, counts=("compacted",))


def request_messages(shown: RenderedView, asked: ConversationRequest) -> list[JsonObject]:
    """The view as the list of messages of the request."""
    render = WIRES[asked.dialect].render
    if asked.dialect != "anthropic":
        return restore_custom_calls(render(shown.items), asked.body.get("tools"))
    taken = sum(_marks(asked.body.get(key)) for key in ("system", "tools")) + ("cache_control" in asked.body)
    cached = any(_marks(each.get("content")) for each in asked.wire)
    wire: list[JsonObject] = render(shown.items, cache=cached)["messages"]
    marked = [block for each in wire for block in each["content"] if "cache_control" in block]
    for block in marked[: max(0, len(marked) + taken - MAX_CACHE_MARKS)]:
        del block["cache_control"]
    return wire


def _instructions(calls: Sequence[messages.Call]) -> str | None:
    """What calls of the compact tool want of the summary; None if it was not called."""
    for call in calls:
        if call.name == COMPACT_TOOL_NAME:
            try:
                return msgspec.convert(call.arguments, CompactArguments, strict=False).instructions
            except msgspec.ValidationError:
                return ""
    return None


def _marks(blocks: Any) -> int:
    """Blocks that the client marked for caching."""
    return sum(isinstance(block, dict) and "cache_control" in block for block in list_or_empty(blocks))


def _tokens(engine: Engine, asked: ConversationRequest, wire: Sequence[JsonObject]) -> int:
    """Tokens of a list of messages, with everything else in the request."""
    counter, given = engine.counter, WIRES[asked.dialect].parse_given(wire)
    beyond = sum(beyond_log(each, asked.dialect, counter) or 0 for each in given)
    return counter.text(asked.beside) + sum(counter.message(each.message) for each in given) + beyond
