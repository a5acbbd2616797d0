"""A conversation in a folder: the loop with its engine, tools, permissions, snapshots and sub-agents.

    chat = Chat(session, root, ChatOptions(), model=refold.model("anthropic:…"))
    reply = await chat.say("Fix the failing test, see @tests/test_login.py")

Front ends differ in what they show (`tell`) and in how they ask (`ask`); everything else is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from refold import entries as e
from refold import messages as m
from refold import registry, tools
from refold.agent import events, permissions
from refold.agent.events import Tell
from refold.agent.folded_files import bring_back
from refold.agent.loop import Agent
from refold.agent.mcp_servers import Servers, ServerTool
from refold.agent.mentions import is_picture, mentioned, pasted_pictures, picture_parts, reminder
from refold.agent.permissions import Allow, NeedsPermission, Refuse
from refold.agent.prompt import changes, project_layers, system_prompt
from refold.agent.rule_files import rule_files
from refold.agent.text_protocol import TextProtocol, call_correction
from refold.compaction.plan import Failed, Reason
from refold.compaction.plan_context import PlanRequest
from refold.compaction.preset import Preset
from refold.costs import known
from refold.engine.maintenance import Memory, keep_memory
from refold.engine.summarise import ByModel, writes_well
from refold.errors import RefoldError, StorageError, UsageError
from refold.hooks import AfterCompact, BeforeCompact, CompactFailed, Hooks
from refold.messages import Assistant, Call, Result
from refold.protocols import Model, NativeTools, SessionInfo, Store
from refold.recall import index_of
from refold.recall.tool import tool_answer
from refold.registry.configuration import ChatSettings, Configuration
from refold.registry.engine import Engine
from refold.session import Session
from refold.session.tree import random_id
from refold.stores import data_folder
from refold.text.redact import redact
from refold.text.truncate import one_line
from refold.tools import sandbox
from refold.tools.base import Envelope, ToolContext, call_tool, failure
from refold.tools.bash import guarded_by_git
from refold.tools.git_guard import GitGuard
from refold.tools.task import COMPACT_TOOL_NAME
from refold.tools.workspace import ToolRefused, Workspace

if TYPE_CHECKING:
    from refold.agent.snapshots import Snapshots

TASK = "Task"
SUB_AGENT = "task-"
"""Prefix of sub-agents' session ids."""
MOST_TASKS, TASKS_AT_ONCE = 20, 4
"""Maximum number of sub-agents per turn, and at the same time."""
NAME_CHARS = 60
"""Maximum characters of a conversation's name."""
DIGEST_SUMMARISER, SAME_SUMMARISER = "digest", "same"
"""Summarisers: no model; the model of the conversation."""

AskUser = Callable[[Call, NeedsPermission], Awaitable[permissions.PermissionAnswer]]


UNASKED = (
    "Not done: this needs the user's permission, and no user is here to ask. "
    "Do without it, or say in your answer what has to be allowed."
)


async def deny_all(call: Call, question: NeedsPermission) -> permissions.PermissionAnswer:  # noqa: ARG001
    """Refuses everything, for conversations without a user."""
    return "no"


class ChatOptions(ChatSettings, frozen=True, kw_only=True):
    """The user's choices for a conversation; None: from the configuration, or the default."""

    preset: str | None = None
    preset_settings: Mapping[str, Any] = {}
    summariser: str | None = None
    """A model's name, `same` (the conversation's) or `digest`; None: as configured, or the digest."""
    own_rules: tuple[Path, ...] = ()
    """The user's own rule files, for every project."""
    notes: Callable[[], str] = lambda: ""
    """Long-term notes, as shown to the model."""
    memory: Memory | None = None
    """The file of the notes; compressed at the end of a turn if there are too many (A19)."""


class Chat:
    """One conversation. `session` may have no store yet; it is stored in `store` with the first message."""

    def __init__(
        self,
        session: Session,
        root: Path,
        settings: ChatOptions = ChatOptions(),
        *,
        model: Model | None = None,
        tell: Tell = events.silence,
        ask: AskUser = deny_all,
        snapshots: Snapshots | None = None,
        store: Callable[[], Store] | None = None,
        config: Configuration | None = None,
        main: bool = True,
    ) -> None:
        self.session, self.settings, self.tell, self.ask = session, settings, tell, ask
        self.root = root
        self.config = config or Configuration()
        self.snapshots = snapshots
        self.unasked: list[Call] = []
        """Calls refused because no user could be asked, since the last action."""
        self.children: list[Session] = []
        """Sessions of sub-agents."""
        self._tasks_left, self._tasks = MOST_TASKS, asyncio.Semaphore(TASKS_AT_ONCE)
        self._store = store
        self._asking = asyncio.Lock()
        self._grants = session
        """The stored permissions."""
        self._models: list[Model] = []
        """All models used so far, which may have connections."""
        self.place = ToolContext(Workspace(root), recall=self._recall, task=self._task if main else None)
        self.place.variables = self.settings.variables
        self.place.git_guard = GitGuard(self.place.workspace.root, data_folder() / "git")
        self.place.git_guard.tell = lambda text: self.tell(events.Notice(text))
        without = {COMPACT_TOOL_NAME: settings.compact_tool, TASK: main}
        self.tools = dict(
            tools.tools_by_name(frozenset(name for name, wanted in without.items() if not wanted))
        )
        self._servers = Servers(self.config.mcp if main else {})
        self._connected = False
        if settings.compact_tool:
            self.place.compact = self._compact_next
        self._wanted_fold: str | None = None
        """Instructions for a fold that the model requested before the next request."""
        self._watch = AsyncExitStack()
        self._followed: Engine | None = None
        """The engine whose watch is running."""
        self._layers: dict[str, str] | None = None
        """Notes and rules at the beginning of the conversation."""
        self._told: dict[str, str] = {}
        """Notes and rules as last shown to the model."""
        self.model: Model | None
        self.engine: Engine
        self.agent: Agent | None
        self.use(model)

    def use(self, model: Model | None) -> None:
        """Switches to this model and its window."""
        self.model, self.engine = model, self._engine(model)
        self._models += [each for each in (model, self.engine.model) if each is not None]
        self.agent = None if model is None else self._agent(model)

    # ── talking ─────────────────────────────────────────────────────────────────────────────────

    async def say(self, text: str, attached: str = "", *, typed: bool = True) -> Assistant:
        """The model's answer. Files that the user mentions are named to it (E12); `attached` is added as it
        is. If the text was not typed by the user, no file that it names is opened."""
        if self.agent is None:
            raise UsageError("No model. Choose one with /model NAME, or start with --model NAME")
        if typed:
            self.unasked.clear()
        self._tasks_left = MOST_TASKS
        await self._settle_git()
        await self._connect()
        await self._follow()
        self.keep(text)
        parts: list[m.AnyPart] = [m.text(text)] if text else []
        if attached:
            parts.append(m.attached(attached))
        from_user = text if typed else ""
        named = mentioned(from_user, self._exists)
        parts += self._pictures(from_user, [name for name in named if is_picture(name)])
        files = [name for name in named if not is_picture(name)]
        notes = (reminder(files), self._changes())
        parts += [m.text(note, "program") for note in notes if note]
        reply = await self.agent.turn(parts)
        if self.settings.memory is not None:
            await keep_memory(self.settings.memory, self.engine.planner)
        return reply

    def _pictures(self, text: str, named: list[str]) -> list[m.AnyPart]:
        """Pictures that the user mentions; a model without pictures gets their names."""
        whole = pasted_pictures(text)
        if not named and not whole:
            return []
        about = known(self.model.name, self.config.models) if self.model else None
        if about is not None and about.images:
            return picture_parts(self.place.workspace, named, whole)
        names = ", ".join((*named, *map(str, whole)))
        name = self.model.name if self.model else "no model"
        self.tell(
            events.Notice(
                f"{name} may not accept pictures (set images = true under [models] if it does): {names}"
            )
        )
        return [m.attached(f"[pictures that cannot be shown here: {names}]")]

    @property
    def store(self) -> Store | None:
        return self._store() if self._store is not None else None

    def keep(self, first: str) -> None:
        """Stores the session, named after the first message."""
        session = self.session
        if session.store is None and (store := self.store) is not None:
            session.info = msgspec.structs.replace(session.info, name=one_line(redact(first)[0], NAME_CHARS))
            store.create(session.info)
            session.store = store

    async def _connect(self) -> None:
        """Connects to MCP servers before the first request; their tools stay the same from then on."""
        if self._connected or not self.config.mcp or self.agent is None:
            return
        self._connected = True
        found, failed = await self._servers.start()
        self.tools |= found
        self.agent.tools = self.specs
        for text in failed:
            self.tell(events.Notice(text))

    async def _follow(self) -> None:
        """Starts the watch before the first request: it prepares folds in the background, folds before the
        provider's cache expires, and writes the lines of rounds, depending on the preset."""
        if self._followed is not self.engine:
            await self._watch.aclose()
            await self._watch.enter_async_context(self.engine.watch(self.session))
            self._followed = self.engine

    def beside(self, session: Session) -> Chat:
        """Another conversation in this folder with the same settings and models."""
        other = Chat(
            session,
            self.root,
            self.settings,
            model=self.model,
            tell=self.tell,
            ask=self.ask,
            snapshots=self.snapshots,
            store=self._store,
            config=self.config,
        )
        other._models = [*self._models, *other._models]
        return other

    async def leave(self) -> None:
        """Stops background work and releases the folder. The session needs no closing."""
        await self._watch.aclose()
        await self._servers.close()
        self.place.workspace.close()

    async def close(self) -> None:
        """Also closes connections."""
        await self.leave()
        for model in self._models:
            if close := getattr(model, "aclose", None):
                await close()

    def system(self) -> str:
        """The system prompt, constant for the whole conversation; `CODE_LAW.md` follows it."""
        if self._layers is None:
            self._layers = self._told = self._layers_now()
        return system_prompt(self.root, self._layers)

    def _layers_now(self) -> dict[str, str]:
        files = rule_files(self.root, self.settings.rules, self.settings.own_rules)
        return project_layers(files, notes=self.settings.notes())

    def _changes(self) -> str:
        """Changes of notes and rules since they were last shown to the model."""
        self.system()
        before, self._told = self._told, self._layers_now()
        return changes(before, self._told)

    @property
    def specs(self) -> list[Any]:
        return [tool.spec for tool in self.tools.values()]

    # ── tools ───────────────────────────────────────────────────────────────────────────────────

    async def run_tool(self, call: Call) -> Result:
        """The result of a call, or the reason why it is not allowed."""
        if text := call_correction(call):
            return failure("format", text).result(call)
        tool, confined = self.tools.get(call.name), True
        if tool is not None and call.raw is None:
            confined = (
                tool.effect != "run" or await asyncio.to_thread(sandbox.find_sandbox, self.root) is not None
            )
            verdict = await self._verdict(call, confined)
            if isinstance(verdict, Refuse):
                return failure("refused", verdict.reason).result(call)
        self.place.unconfined = not confined  # for this call, to which the user said yes
        self.place.network = permissions.wants_network(call.arguments)
        self.place.approve = lambda question: self._approve(call, question)
        self.place.output = lambda text: self.tell(events.ToolOutput(call, text))
        try:
            result = (await call_tool(self.tools, call, self.place)).result(call)
            if tool is not None and tool.effect != "read" and not result.is_error:
                self.unasked.clear()  # it went on without
            return result
        finally:
            self.place.unconfined = self.place.network = False
            self.place.approve = self.place.output = None

    async def _verdict(self, call: Call, confined: bool) -> Allow | Refuse:
        async with self._asking:  # one question at a time
            remembered = permissions.load_grants(self._grants)
            verdict = permissions.decide(
                self.settings.permission, self.tools[call.name], call.arguments, remembered, confined=confined
            )
            if not isinstance(verdict, NeedsPermission):
                return verdict
            if self.ask is deny_all:
                self.unasked.append(call)
                return Refuse(UNASKED)
            runs = self.tools[call.name].effect == "run"
            details = self._bounds(confined, permissions.wants_network(call.arguments)) if runs else ()
            answer = await self.ask(call, msgspec.structs.replace(verdict, details=details))
            if answer == "no":
                what = "to let it use the network" if permissions.wants_network(call.arguments) else "this"
                return Refuse(f"The user declined {what}. Ask what to do instead, or do without.")
            if answer == "always":
                permissions.remember(self._grants, verdict)
            return Allow()

    def _bounds(self, confined: bool, network: bool) -> tuple[str, ...]:
        """Where a command runs, and what it could do there."""
        if not confined:
            return (
                f"in {self.root}; there is no sandbox: it has the network and can write wherever you can",
            )
        reaches = "the network" if network else "no network"
        return (f"in {self.root}; it can write only there and in /tmp, and has {reaches}",)

    async def _approve(self, call: Call, question: str) -> bool:
        """Asks in every mode, because what a command left for git to run is outside the sandbox."""
        async with self._asking:
            return await self.ask(call, NeedsPermission(question, ())) != "no"

    async def _settle_git(self) -> None:
        """Asks about what a command left for git to run before the agent was killed."""
        guard = self.place.git_guard
        command = guard.left_over() if guard else None
        if command is None:
            return

        async def nothing() -> Envelope:
            return Envelope(status="success")

        call = Call("interrupted", permissions.COMMAND_TOOL, {"command": command})
        self.place.approve = lambda question: self._approve(call, question)
        await guarded_by_git(self.place, "", nothing)

    def together(self, call: Call) -> bool:
        """True for calls that may run in parallel: reads and sub-agents."""
        tool = self.tools.get(call.name)
        return tool is not None and (tool.effect == "read" or call.name == TASK)

    def _exists(self, path: str) -> bool:
        try:
            self.place.workspace.open(path).close()
        except (ToolRefused, OSError):
            return False
        return ".." not in Path(path).parts

    def _recall(self, arguments: Mapping[str, Any]) -> str:
        within = {entry.id for entry in self.session.path}
        return tool_answer(index_of(self.session), arguments, counter=self.engine.counter, within=within)

    async def compact(self, focus: str = "") -> e.Fold | Failed | Reason:
        """Folds now, regardless of the trigger."""
        asked = PlanRequest(force=True, system=self.system(), tools=self.specs, instructions=focus or None)
        plan = await self.engine.planner.planned(self.session, asked)
        return plan if isinstance(plan, Reason) else await self.engine.apply(self.session, plan)

    async def _compact_next(self, instructions: str) -> str:
        """Requests a fold after the results of this reply's calls, which it would otherwise separate."""
        asked = PlanRequest(force=True, system=self.system(), tools=self.specs, instructions=instructions)
        plan = await self.engine.planner.planned(self.session, asked)
        if isinstance(plan, Reason):
            raise ToolRefused("nothing_to_fold", f"Nothing was folded: {plan.text}.")
        self._wanted_fold = instructions
        return "The older part of the conversation has been folded; the view is shorter from now on."

    async def _before_asking(self) -> None:
        wanted, self._wanted_fold = self._wanted_fold, None
        if wanted is not None:
            await self.compact(wanted)

    # ── sub-agents ──────────────────────────────────────────────────────────────────────────────

    async def _task(self, description: str, prompt: str) -> str:
        """The final answer of a sub-agent: a separate conversation with all tools but this one."""
        if not self._tasks_left:
            raise ToolRefused("limit", f"A turn has at most {MOST_TASKS} sub-agents: do the rest yourself.")
        self._tasks_left -= 1
        async with self._tasks:
            return await self._sub_agent(description, prompt)

    async def _sub_agent(self, description: str, prompt: str) -> str:
        child = Chat(
            self._child(description),
            self.root,
            self.settings,
            model=self.model,
            ask=self.ask if self.ask is deny_all else self._ask_for(description),
            tell=lambda event: self._hear(description, event),
            config=self.config,
            main=False,
        )
        child._asking, child._grants = self._asking, self._grants
        child.place.git_guard, child.unasked = self.place.git_guard, self.unasked
        child.tools |= {name: tool for name, tool in self.tools.items() if isinstance(tool, ServerTool)}
        child.use(child.model)
        child._connected = True
        self.children.append(child.session)
        try:
            return (await child.say(prompt, typed=False)).text
        except RefoldError as error:
            raise ToolRefused("failed", f"The sub-agent could not finish: {error}") from error
        finally:
            await child.leave()

    def _ask_for(self, description: str) -> AskUser:
        """Asks the user on behalf of a sub-agent."""
        who = f"for the sub-agent “{one_line(description, NAME_CHARS)}”"

        async def ask(call: Call, question: NeedsPermission) -> permissions.PermissionAnswer:
            return await self.ask(call, msgspec.structs.replace(question, details=(*question.details, who)))

        return ask

    def _hear(self, description: str, event: events.TurnEvent) -> None:
        """Shows the user which tools a sub-agent uses."""
        if isinstance(event, events.ToolStarted):
            self.tell(events.Notice(f"{description}: {event.call.name} {m.argument_text(event.call)}"))

    def _child(self, description: str) -> Session:
        """A session for a sub-agent, linked to this one."""
        info = SessionInfo(
            id=SUB_AGENT + random_id(), created=self.session.clock(), name=description, cwd=str(self.root)
        )
        store = self.session.store
        if store is not None:
            try:
                store.create(info)
            except StorageError:  # a file that holds one session
                store = None
        noted = {"session": info.id, "description": description}
        self.session.append(self.session.make(e.State, target=self.session.leaf, name="task", value=noted))
        return Session(info=info, store=store)

    # ── putting it together ─────────────────────────────────────────────────────────────────────

    def _agent(self, model: Model) -> Agent:
        as_text = self.settings.text_protocol
        if as_text is None:
            as_text = isinstance(model, NativeTools) and not model.native_tools
        return Agent(
            self.engine,
            self.session,
            TextProtocol(model) if as_text else model,
            self.run_tool,
            tools=self.specs,
            together=self.together,
            system=self.system,
            snapshot=self._snapshot if self.snapshots else None,
            before_asking=self._before_asking,
            tell=lambda event: self.tell(event),
            most=self.settings.max_iterations,
        )

    async def _snapshot(self, request: str) -> str | None:
        """Takes a snapshot of the workspace. A failure is reported and does not stop the turn."""
        assert self.snapshots is not None
        try:
            return await asyncio.to_thread(self.snapshots.take, self.session.id, request)
        except OSError as error:
            self.tell(events.Notice(f"No snapshot of the folder was taken: {error}"))
            return None

    def _engine(self, model: Model | None) -> Engine:
        """The engine for a model. Every preset gets the layers of E1 and E2, and falls back to the digest."""
        given = {"fallback": DIGEST_SUMMARISER, "layers": True, **self.settings.preset_settings}
        window = given.pop("window", None) or self._window(model)
        preset = registry.preset(self.settings.preset, given, config=self.config)
        if window:
            preset = preset.resized(int(window))
        if _is_off(preset):
            preset = preset.settings.fitted(preset.window).build()
        engine = Engine(preset, model=self._writer(model), summariser=SAME_SUMMARISER, hooks=self._hooks())
        if isinstance(engine.summariser, ByModel):
            engine.summariser.run_tool = self._read_only
        return engine

    async def _read_only(self, call: Call) -> Result | None:
        """A read-only tool call of a summariser (A24)."""
        tool = self.tools.get(call.name)
        if tool is None or tool.effect != "read":
            return None
        return (await call_tool(self.tools, call, self.place)).result(call)

    def _writer(self, model: Model | None) -> Model | None:
        """The model that writes summaries; None: the digest."""
        name = self.settings.summariser or self.config.summariser
        if name is None:
            return model if model is not None and writes_well(model) else None
        if name in (DIGEST_SUMMARISER, SAME_SUMMARISER):
            return model if name == SAME_SUMMARISER else None
        return registry.model(name, config=self.config)

    def _window(self, model: Model | None) -> int | None:
        """The model's window, unless the configuration has one for the preset."""
        name = self.settings.preset or self.config.preset or "refold"
        configured = self.config.preset_settings(name, ["window"])
        return model.context_window if model and not configured else None

    def _hooks(self) -> Hooks:
        """Hooks of plug-ins and of this chat, which report folds and show files again that left the view."""
        hooks = Hooks.installed()

        @hooks.on("before_compact")
        def begin(event: BeforeCompact) -> None:
            self.tell(events.FoldStarted(event.reason, event.model))

        @hooks.on("after_compact")
        def done(event: AfterCompact) -> None:
            self.tell(events.FoldFinished(event.fold))
            self._told = self._layers or {}  # what was told since may have left the view
            files = self.place.workspace
            bring_back(self.engine, self.session, event.fold, files, system=self.system(), tools=self.specs)

        @hooks.on("compact_failed")
        def failed(event: CompactFailed) -> None:
            self.tell(events.FoldFailed(event.code, event.text))

        return hooks


def _is_off(preset: Preset) -> bool:
    """True for a preset that folds only if it is configured (A3)."""
    reason = Engine(preset).plan(Session())
    return isinstance(reason, Reason) and reason.code == "off"


def envelope(result: Result) -> Envelope | None:
    """The envelope of a tool result, if it is one."""
    try:
        return msgspec.json.decode(result.text, type=Envelope)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
