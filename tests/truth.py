"""Is what a record says of the work true of the log?

A reader of its own: it shares no code with `refold.facts`, knows nothing of how a state is computed, and is
as simple as it can be. It takes the text of a state and the messages it speaks of (`None` where an entry of the
path is no message), and tells which statements the log does not bear out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from refold import messages as m
from refold.text.frames import quote

Log = Sequence[m.Message | None]


# ── the log ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Done:
    """A call with its answer."""

    call: m.Call
    asked: int
    answered: int
    result: m.Result | m.Bash
    step: int

    @property
    def text(self) -> str:
        return self.result.output if isinstance(self.result, m.Bash) else self.result.text

    @property
    def command(self) -> str:
        """The command line, without what it feeds to programs."""
        given = next((self.call.arguments[k] for k in ("command", "cmd") if self.call.arguments.get(k)), "")
        if isinstance(given, list):
            given = str(given[-1])
        bare = re.sub(r"<<-?\s*['\"\\]?(\w+)['\"]?([^\n]*)\n(?s:.*?)\n\s*\1\b", r" \2", str(given))
        return re.sub(r"\\\n", " ", bare)

    @property
    def refused(self) -> bool:
        return bool(re.match(r"(?s)The user doesn't want|<tool_use_error>|(exec command|patch) rejected|Permission to use|aborted by user", self.text))  # fmt: skip

    @property
    def exit(self) -> int | None:
        """The status that the tool reports. (In what a file says it is no report.)"""
        if isinstance(self.result, m.Bash):
            return self.result.exit_code
        if re.match(r"(?i)read|view|grep|glob|search|ls$|list", self.call.name):
            return None
        ends = self.text[:200] + "\n" + self.text[-600:]
        found = re.findall(r'(?im)(?:^\[?(?:the command completed|command finished) with exit code|^exit code:?|^command exited with code|^<shellId: \w+ completed with exit code|^\(exit(?: code)?|"exit_code":|<exit_code>|exit code:) ?(-?\d+)', ends)  # fmt: skip
        return int(found[-1]) if found else None

    @property
    def failed(self) -> bool:
        if isinstance(self.result, m.Bash):
            return bool(self.exit)
        bad = r"\s*(EXECUTION RESULT of \[\w+\]:\s*)?(Error|ERROR|Failed|failed in sandbox|No replacement|String to replace|old_string|File not found|File does not exist|Could not|Invalid |\{\"status\":\"error\"|Your proposed edit|Missing required)"
        is_shell = shell(self.call)
        return self.result.is_error or self.refused or bool(self.exit) or (not is_shell and bool(re.match(bad, self.text)))  # fmt: skip


def shell(call: m.Call) -> bool:
    return call.name.lower() in ("bash", "shell", "execute_bash", "run_shell_command", "exec_command", "local_shell", "run_terminal_cmd")  # fmt: skip


def done(log: Log) -> list[Done]:
    """Calls with their answers, in order of the answers."""
    calls: dict[str, tuple[m.Call, int, int]] = {}
    found: list[Done] = []
    step = 0
    for number, message in enumerate(log):
        if message is None:
            continue
        step += bool(message.calls)
        for call in message.calls:
            calls[call.id] = call, number, step
        if isinstance(message, m.Result) and message.call_id in calls:
            call, asked, at = calls.pop(message.call_id)
            found.append(Done(call, asked, number, message, at))
        if isinstance(message, m.Bash):
            found.append(Done(m.call("", "bash", command=message.command), number, number, message, step))
    return found


EDITS = {
    "edit", "multiedit", "write", "notebookedit", "writefile", "replace", "create", "insert", "createfile",
    "editfile", "strreplace", "replaceinfile", "deletefile", "movefile",
}  # fmt: skip
PATHS = ("file_path", "path", "filename", "notebook_path", "absolute_path", "file", "target_file")


def edited(one: Done) -> dict[str, str]:
    """Files that an edit tool changed by this call → how: changed, created, deleted."""
    name = one.call.name.lower().replace("_", "").replace("-", "")
    if one.failed:
        return {}
    patch = one.call.raw or "\n".join(str(x) for v in one.call.arguments.values() for x in (v if isinstance(v, list) else [v]))  # fmt: skip
    if (name in ("applypatch", "shell", "bash", "execcommand") and "*** Begin Patch" in patch) or name == "applypatch":  # fmt: skip
        words = {"Add": "created", "Update": "changed", "Delete": "deleted"}
        files = {path.strip(): words[word] for word, path in re.findall(r"^\*\*\* (Add|Update|Delete) File: (.+)$", patch, re.M)}  # fmt: skip
        return files | {
            path.strip(): "created" for path in re.findall(r"^\*\*\* Move to: (.+)$", patch, re.M)
        }
    given = str(next((one.call.arguments[k] for k in PATHS if one.call.arguments.get(k)), ""))
    if name == "strreplaceeditor" and one.call.arguments.get("command") not in ("view", None):
        return {given: "created" if one.call.arguments["command"] == "create" else "changed"}
    if name in ("edit", "insert", "create") and (shown := re.findall(r"\(Open file: (\S+)\)", one.text)):
        return {shown[-1]: "created" if name == "create" else "changed"}
    if name in EDITS and given:
        made = re.search(r"(?i)\bcreated?\b|new file", one.text[:200]) or name in ("create", "createfile")
        return {given: "deleted" if name.startswith("delete") else "created" if made else "changed"}
    return {}


def named_by(one: Done, path: str) -> bool:
    """Whether a command may have removed, moved or set back the file by its name."""
    if not shell(one.call) or one.refused:
        return False
    for verb, rest in re.findall(
        r"\b(rm|mv|git (?:checkout|restore|rm|mv))\b([^;&|\n)]*)", without_message(one)
    ):
        words = [word.strip("'\"").rstrip("/*") for word in rest.split()]
        if verb == "mv":
            words = words[:-1]
        if any(len(w) > 1 and (path == w or path.endswith(f"/{w}") or f"/{w}/" in f"/{path}/") for w in words):  # fmt: skip
            return True
    return False


def undoes(one: Done) -> bool:
    """Whether a command surely took back more than it names: changes put away or thrown away, another branch."""
    if not shell(one.call) or one.failed:
        return False
    bare = without_message(one)
    if re.search(r"\bgit (stash(?! (pop|apply|list|show|drop|clear|create|store|branch))|reset --hard|(checkout|restore)( --)? \.(\s|$))", bare):  # fmt: skip
        return not popped(one)
    names = re.findall(r"(?m)^(?:Switched to (?:a new )?branch|Note: switching to) '(.+?)'", one.text)
    begun = (rf"-([bBcC]|-create|-orphan) {re.escape(name)}\s*([;&|\n]|2>|$)" for name in names)
    return bool(re.search(r"\bgit (checkout|switch)\b", bare)) and not all(re.search(x, bare) for x in begun)


def popped(one: Done) -> bool:
    """Whether git says that it brought back all that it had put away."""
    return "git stash pop" in one.command and bool(re.search(r"(?m)^Dropped (refs/)?stash@", one.text))


def without_message(one: Done) -> str:
    return re.sub(r"-m (\"|')(?s:.*?)\1(?=\s|$)", "", one.command)


def changes(log: Log) -> dict[str, tuple[str, int]]:
    """Files by what edit tools did to them last and the number of the call; what a command has named since is
    `gone`, what was taken back with all else is `undone`."""
    found: dict[str, tuple[str, int]] = {}
    stashed: dict[str, tuple[str, int]] = {}
    for one in done(log):
        for path, how in edited(one).items():
            before = found.get(path, ("", 0))[0]
            found[path] = ("created" if before == "created" and how == "changed" else how), one.asked
        if popped(one):
            found |= {path: was for path, was in stashed.items() if found[path][0] == "undone"}
        if undoes(one):
            stashed = {
                path: was for path, was in found.items() if was[0] in ("changed", "created", "deleted")
            }
            found |= {path: ("undone", number) for path, (_, number) in stashed.items()}
        for path, (how, _) in list(found.items()):
            if how in ("changed", "created") and named_by(one, path):
                found[path] = "gone", one.asked
    return found


# ── the text ────────────────────────────────────────────────────────────────────────────────────

OUTSIDE = re.compile(r"(/private)?/tmp/|/var/folders/|(/(Users|home)/[^/]+|/root|~)/\.[^/]+/")
"""Of no project."""
HEADING = re.compile(r"^([A-Z][^\n]*?)(?: \((?:(\d+)(?:, )?)?(?:relative to (.+?))?\))?:$")


@dataclass(frozen=True)
class Statement:
    heading: str
    text: str
    """The row, without its dash, and the rows that are indented below it."""
    root: str = ""


def statements(state: str) -> Iterator[Statement]:
    """The rows of a state, each under its heading; a row of names is as many statements."""
    heading, root = "", ""
    rows = state.split("\n")
    while rows:
        row = rows.pop(0)
        if not row.startswith(("- ", " ")) and (found := HEADING.match(row)):
            heading, root = found[1], found[3] or root
            continue
        while rows and rows[0].startswith("    "):
            row += "\n" + rows.pop(0)[4:]
        row = row.removeprefix("- ")
        if not row:
            continue
        if re.fullmatch(r"\(?and \d+ more\)?", row):
            continue
        if heading.startswith(("Files", "Tried")):
            for name in names(row):
                yield Statement(heading, name, root)
        else:
            yield Statement(heading, row, root)


def names(row: str) -> list[str]:
    folder, mark, files = row.partition("/: ")
    if not mark:
        return [row]
    return [posixpath.join(folder, name) for name in files.split(", ")]


def section(record: str) -> str:
    """The state of a record."""
    found = re.search(r"## State of the work\n(.*?)(?=\n\n## |\n</refold-record>)", record, re.S)
    return found[1] if found else ""


# ── the judge ───────────────────────────────────────────────────────────────────────────────────


class Judge:
    """Says of each statement what is wrong with it; empty: nothing."""

    def __init__(self, log: Log, cwd: str = "") -> None:
        self.log, self.cwd = log, cwd.rstrip("/")
        self.done = done(log)
        self.at = {one.answered: one for one in self.done}
        self.changes = changes(log)
        self.steps = max((one.step for one in self.done), default=0)

    def wrong(self, state: str) -> list[str]:
        """What is not true, with why."""
        found = ((one, self.why(one)) for one in statements(state))
        return [f"{one.heading}: {one.text!r}: {why}" for one, why in found if why]

    def why(self, one: Statement) -> str:
        heads = {
            "Files changed before": self._undone, "Files changed": self._changed, "Files created": self._created, "Files deleted": self._deleted,
            "Files set back": self._set_back, "Files read": self._read, "Tried": self._tried,
            "Newest changes": self._change, "Builds and tests": self._check, "Last error": self._error,
            "Open todos": self._todo, "Plan": self._plan, "Running": self._running, "Names": self._named,
        }  # fmt: skip
        judge = next((judge for head, judge in heads.items() if one.heading.startswith(head)), None)
        return judge(one) if judge else "a heading that nobody knows"

    # files

    def _known(self, one: Statement) -> tuple[str, str]:
        """The log's name of a file, and what became of it."""
        name = one.text.rstrip("/")
        spellings = {name, one.root + name, posixpath.join(self.cwd, name), f"./{name}"}
        for path, (how, _) in self.changes.items():
            same = {quote(path), quote(posixpath.normpath(path)), quote(posixpath.join(self.cwd, path))}
            if same & spellings or (not self.cwd and path.endswith(f"/{name}")):
                return path, how
        return name, ""

    def _changed(self, one: Statement) -> str:
        path, how = self._known(one)
        return "" if how in ("changed", "created") else f"no edit tool changed it ({how or path})"

    def _undone(self, one: Statement) -> str:
        """An edit tool changed it, and the command that is named came later."""
        path, how = self._known(one)
        found = re.search(r"before `(.+)` \(#(\d+)\), which may have taken that back", one.heading)
        if not found or how not in ("changed", "created", "deleted", "undone"):
            return f"no edit tool changed it ({how or path})"
        if self.changes[path][1] > int(found[2]):
            return "an edit tool changed it later"
        return self._ran_there(found[1], int(found[2]))

    def _ran_there(self, command: str, number: int) -> str:
        words = spaced(re.sub(r"['\"]", "", command)).removesuffix("…")
        lines = [spaced(re.sub(r" -C \S+|['\"]", "", x.command)) for x in self.done if x.asked == number]
        return "" if any(words in quote(line) for line in lines) else "no such command there"

    def _created(self, one: Statement) -> str:
        path, how = self._known(one)
        return "" if how == "created" else f"no tool says that it made it ({how or path})"

    def _deleted(self, one: Statement) -> str:
        path, how = self._known(one)
        if how in ("deleted", "gone"):
            return ""
        named = any(named_by(x, posixpath.join(one.root, one.text.rstrip("/"))) for x in self.done)
        return "" if named and not how else f"nothing deleted it ({how or path})"

    def _set_back(self, one: Statement) -> str:
        path, how = self._known(one)
        return "" if how == "gone" else f"nothing set it back ({how or path})"

    def _read(self, one: Statement) -> str:
        """Named by a call that did not fail and, in a shell, printed something; not changed since by an edit tool."""
        base = posixpath.basename(one.text.rstrip("/"))
        for x in self.done:
            if not x.refused and base in quote(" ".join(map(str, x.call.arguments.values()))):
                missing = re.search(rf"{re.escape(base)}[^\n]*(No such file|does not exist)", x.text)
                mute = shell(x.call) and not re.sub(r"<shellId: [^>\n]*>", "", x.text).strip()
                if not missing and not mute and not (x.failed and not shell(x.call)):
                    return ""
        return "no call that succeeded names it"

    def _tried(self, one: Statement) -> str:
        path, how = self._known(one)
        return "" if not how else f"an edit succeeded ({path})"

    def _change(self, one: Statement) -> str:
        head, *rows = one.text.split("\n")
        found = re.match(
            r"(.*?) #(\d+)(, changed again below)?(?: \((?:in other changes|also has): (.*)\))?$", head
        )
        if not found or int(found[2]) >= len(self.log):
            return "no number"
        agent = re.search(r"\(a sub-agent worked at #(\d+)\)", one.heading)
        if agent and not any(x.asked < int(agent[1]) and x.call.name.lower() in AGENTS for x in self.done):
            return "no sub-agent worked before"
        base = posixpath.basename(found[1])
        mine = [x for x in self.done if any(posixpath.basename(path) == base for path in edited(x))]
        changed = [quote(line) for x in mine for line in changed_lines(x.call)]
        if strange := [
            name
            for name in (found[4] or "").removesuffix("…").split(", ")
            if not any(spaced(name).rstrip(",") in spaced(line) for line in changed or [""])
        ]:
            return f"no edit changes {strange[0]!r}"
        paths = {path for x in mine if x.asked == int(found[2]) for path in edited(x) if path.endswith(base)}
        later = any(x.asked > int(found[2]) and paths & edited(x).keys() for x in mine)
        if later != bool(found[3]):
            return "changed again later" if later else "not changed again"
        message = self.log[int(found[2])]
        calls = message.calls if message else ()
        said = [spaced(quote("\n".join(texts(call.arguments)) + (call.raw or ""))) for call in calls]
        answered = next((x for x in self.done if x.asked == int(found[2])), None)
        if not said or answered is None:
            return "no call with an answer there"
        for row in rows:
            text = spaced(re.sub(r"^[+-] ", "", row)).removesuffix(" …").removesuffix("…").strip()
            about = re.fullmatch(r"\d+ lines?|after line -?\d+|\d+ places\b.*|last edit undone", text)
            if about or "[redacted" in text:
                continue
            if not any(text in whole for whole in said):
                return f"not in the call: {text!r}"
        return "" if mine else "no edit tool changed it"

    # runs

    def _check(self, one: Statement) -> str:
        row = one.text.split("\n")[0]
        found = re.match(r"(?P<command>.+?)(?: \(in (?P<folder>[^)]+)\))?: (?P<said>(?:passed|FAILED|exit|failed|unknown|\").*) #(?P<number>\d+)(?P<since>, files changed since)?(?P<agent>, a sub-agent worked since)?(?:, before `(?P<undo>.+)` \(#(?P<undo_number>\d+)\))?$", row)  # fmt: skip
        if not found:
            return "no such row"
        run = self.at.get(int(found["number"]))
        if run is None or not run.command:
            return "no run there"
        said, since = found["said"], bool(found["since"])
        command = found["command"].removesuffix("…").removesuffix(" (after git stash)")
        parts = [part for piece in pieces(command) if (part := spaced(piece))]
        line = spaced(run.command)
        if not all(part in quote(line) or part in line for part in parts):
            return f"another command: {line[:120]!r}"
        if why := self._outcome(run, parts, said):
            return why
        ended = [x for x in self.done if not x.refused and "running in background with ID" not in x.text]
        later = [x for x in ended if x.answered > run.answered and shell(x.call)]
        if all(any(self._same(x, part, found["folder"] or "", run) for x in later) for part in parts):
            return "it ran again later"
        changed = any(number > run.answered for path, (how, number) in self.changes.items() if how != "gone" and not OUTSIDE.match(path))  # fmt: skip
        if found["agent"] and not any(x.answered > run.answered and x.call.name.lower() in AGENTS for x in self.done):  # fmt: skip
            return "no sub-agent worked since"
        if found["undo"] and (why := self._ran_there(found["undo"], int(found["undo_number"]))):
            return why
        undone = any(how == "undone" and number < run.answered for how, number in self.changes.values())
        if undone and not found["undo"] and any(undoes(x) for x in self.done if x.asked > run.answered):
            return "its changes were undone since"
        if since and not any(number > run.answered for _, number in self.changes.values()):
            return "no file changed since"
        return "files changed since" if changed and not since else ""

    def _outcome(self, run: Done, parts: Sequence[str], said: str) -> str:
        quoted = re.search(r"\"(.*)\"", said) or re.search(
            r"^(?:passed|FAILED|unknown) \((?!exit)(.*)\)$", said
        )
        lines = spaced(quote(run.text))
        if quoted and "[redacted" not in said:
            said_parts = re.split(r"; |, ", quoted[1]) if "(" in said else [quoted[1]]
            if not all(spaced(part).strip("… ") in lines for part in said_parts):
                return f"not in the output: {quoted[1]!r}"
        if said.startswith("unknown"):
            return "nothing is known, and that is said"
        if said.startswith('"'):
            return ""
        line = re.sub(r"\s*\d?>(?:&\d|\s*/dev/null|\s*[\w./-]+)", "", spaced(run.command)).strip()
        cut = [part for piece in pieces(line) if (part := spaced(piece)).startswith(parts[-1])]
        bare = re.sub(r"\s*\d?>(?:&\d|\s*/dev/null|\s*[\w./-]+)", "", cut[-1] if cut else parts[-1]).strip()
        if not line.endswith(bare) or re.search(r"\|\s*$", line.removesuffix(bare)):
            return f"a verdict, though the check does not end its line: {line[-120:]!r}"
        if re.search(r"\|\||\b(?:if|for|while|until)\b", line.removesuffix(bare)):
            return "a verdict, though the check may not have run"
        code = run.exit
        if code is None and not run.failed and self._reports(run):
            code = 0
        if code is None:
            return "a verdict without an exit code"
        good = said.startswith(("passed", "exit 0"))
        return "" if good == (code == 0) else f"the exit code is {code}"

    def _reports(self, run: Done) -> bool:
        """Whether the tool marks runs that fail: then one that is not marked did not."""
        return any(x.call.name == run.call.name and x.exit and isinstance(x.result, m.Result) and x.result.is_error for x in self.done)  # fmt: skip

    def _same(self, later: Done, part: str, folder: str, run: Done) -> bool:
        """Did a later line run the same command in the same folder?"""
        for piece in pieces(later.command):
            words = spaced(re.sub(r"\d?>(?:&\d|\s*/dev/null)", "", piece)).strip(" ()")
            if words == re.sub(r"\s*\d?>(?:&\d|\s*/dev/null)", "", part).strip():
                there, here = folder_of(later), folder_of(run)
                return not there or not here or posixpath.normpath(there) == posixpath.normpath(here)
        return False

    def _named(self, one: Statement) -> str:
        """Names of code: each of them stands in what two calls were given."""
        given = [" ".join(texts(x.call.arguments)) for x in self.done]
        for name in one.text.split(", "):
            if sum(bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", quote(text))) for text in given) < 2:
                return f"no two calls use it: {name}"
        return ""

    def _error(self, one: Statement) -> str:
        row = one.text.split("\n")[0]
        found = re.match(
            r"(?P<what>.+?): (?:exit (?P<exit>-?\d+)(?:: |$))(?P<line>.*?) ?#(?P<number>\d+)$", row
        ) or re.match(r"(?P<what>.+?): (?P<exit>)(?P<line>.*?) ?#(?P<number>\d+)$", row)
        run = self.at.get(int(found["number"])) if found else None
        if run is None or found is None:
            return "no such step"
        if found["exit"] and run.exit != int(found["exit"]):
            return f"the exit code is {run.exit}"
        if not run.failed:
            return "nothing says that it failed"
        line = spaced(found["line"]).strip("… ")
        if line and line != "failed" and "[redacted" not in line and line not in spaced(quote(run.text)):
            return f"not in the output: {line!r}"
        if self.steps - run.step > 20:
            return f"it is {self.steps - run.step} steps old"
        again = [x for x in self.done if x.answered > run.answered and not x.refused and shell(x.call)]
        if shell(run.call) and any(spaced(x.command) == spaced(run.command) for x in again):
            return "it was run again"
        return ""

    # lists

    def _todo(self, one: Statement) -> str:
        text = re.sub(r" \[[a-z ]+\]$", "", one.text)
        listed = self._todos()
        if found := re.fullmatch(r"\((\d+) of (\d+) done\)", text):
            closed = sum(status in DONE for status in listed.values())
            return (
                ""
                if (int(found[1]), int(found[2])) == (closed, len(listed))
                else f"{closed} of {len(listed)}"
            )
        matching = [
            s
            for t, s in listed.items()
            if spaced(quote(t.partition("\0")[0])).startswith(spaced(text).removesuffix("…"))
        ]
        if not matching:
            return "not on the list"
        return "" if any(status not in CLOSED for status in matching) else "it is done"

    def _todos(self) -> dict[str, str]:
        listed: dict[str, str] = {}
        ids: dict[str, str] = {}
        for x in self.done:
            name, given = x.call.name.lower().replace("_", ""), x.call.arguments
            items: Any = next((given[k] for k in ("todos", "plan", "items", "tasks", "task_list") if isinstance(given.get(k), list)), None)  # fmt: skip
            if name in ("todowrite", "updateplan", "writetodos", "tasktracker", "managetodolist") and items is not None and not x.failed:  # fmt: skip
                listed = {str(next((i[k] for k in ("content", "step", "title", "description") if i.get(k)), "")): str(i.get("status", "pending")) for i in items}  # fmt: skip
            if name == "taskcreate" and (number := re.search(r"Task #(\d+) created", x.text)):
                ids[number[1]] = f"{given['subject']}\0{number[1]}"  # two may be called the same
                listed[ids[number[1]]] = "pending"
            if name == "taskupdate" and str(given.get("taskId")) in ids and not x.failed:
                listed[ids[str(given["taskId"])]] = str(
                    given.get("status") or listed[ids[str(given["taskId"])]]
                )
            if name == "tasklist":
                for id, status, subject in re.findall(r"^#(\d+) \[(\w+)\] (.*?)(?: \[blocked by .*\])?(?: \(.*\))?$", x.text, re.M):  # fmt: skip
                    listed[ids.setdefault(id, f"{subject}\0{id}")] = status
        return listed

    def _plan(self, one: Statement) -> str:
        plans = [spaced(quote(str(x.call.arguments.get("plan", "")))) for x in self.done if not x.failed]
        text = spaced(re.sub(r"^#\d+\n| #\d+$", "", one.text)).removesuffix("…").strip()
        return "" if any(text in plan for plan in plans) else "no such plan"

    def _running(self, one: Statement) -> str:
        found = re.match(r"(.*) \((\w+)\) #(\d+)$", one.text)
        if not found:
            return "no such row"
        started = self.at.get(int(found[3]))
        if started is None or found[2] not in started.text:
            return "it was not started there"
        for number in range(int(found[3]) + 1, len(self.log)):
            message = self.log[number]
            text = message.text if message else ""
            ended = re.search(r"<status>(?:completed|failed|killed)|Successfully killed|exited with code|<exit_code>", text)  # fmt: skip
            if found[2] in text and ended:
                return f"its end is reported (#{number})"
        return ""


AGENTS = ("task", "agent", "spawn_agent")
DONE = ("completed", "complete", "done")
CLOSED = {"completed", "done", "cancelled", "canceled", "deleted", "complete"}


def changed_lines(call: m.Call) -> list[str]:
    """Lines of an edit that do not stand on both sides of it; the context of a patch does."""
    lines = [line for text in (*texts(call.arguments), call.raw or "") for line in text.split("\n")]
    if "*** Begin Patch" in lines or "patch" in call.name.lower():
        return [line for line in lines if line[:1] in "+-"]
    return [line for line in lines if lines.count(line) % 2]


def pieces(line: str) -> list[str]:
    """A command line at its operators, quotes respected."""
    masked = re.sub(r"\"(?:\\\\.|[^\"\\\\])*\"|'[^']*'", lambda found: "q" * len(found[0]), line, flags=re.S)
    ends = [(found.start(), found.end()) for found in re.finditer(r"&&|\|\||[;|\n]", masked)]
    starts = [0, *(end for _, end in ends)]
    return [line[a:b] for a, b in zip(starts, [*(start for start, _ in ends), len(line)], strict=True)]


def folder_of(one: Done) -> str:
    given = one.call.arguments.get("workdir")
    cd = re.findall(r"(?:^|&&|;|\n)\s*cd (\"[^\"]+\"|'[^']+'|[^\s;&|]+)", one.command)
    here = cd[-1].strip("'\"") if cd else ""
    return posixpath.join(given, here) if isinstance(given, str) else here


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


def spaced(text: str) -> str:
    return " ".join(text.split())
