"""A seeded world of chores for an agent with tools: a file tree, a ledger, a test runner. No refold in it.

A world is a list of chores, fixed by its seed: what the user types is the same whoever works. A chore takes one to six tool
calls. Most need a *fact*: a name, number or code that the user mentioned in passing, a line of an earlier tool result, or a
choice that the agent made itself; and some fall under a *rule* that the user laid down once. Facts stand where real sessions
have them: between other sentences, in the middle of a pasted log, in line 40 of a file, in the agent's closing sentence. Some
are corrected later; then the newest counts. What tools answer never says whether a value was right.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

Call = tuple[str, tuple[tuple[str, str], ...]]
"""A tool and its arguments."""
STEPS = (60, 300)
"""Tool calls of a world, drawn between these."""
RECENT = 0.35
"""Share of needs that are drawn from the six newest facts; the others from all."""
CORRECTED = 0.15
"""Share of remarks in passing that correct an older one."""


def call(tool: str, **arguments: str) -> Call:
    return tool, tuple(arguments.items())


class Fact(NamedTuple):
    """Something that has to be known. A statement of it has all words of `subject` and a match of `pattern`."""

    kind: str
    subject: tuple[str, ...]
    pattern: str
    value: str
    source: str
    """`user`, `tool` or `agent`."""
    read_again: Call | None = None
    """A call that shows it once more; what was only said has none."""


class Rule(NamedTuple):
    name: str
    marks: tuple[str, ...]
    """Patterns that one sentence has to match, all of them; a group captures the rule's value."""
    value: str = ""


@dataclass
class Chore:
    kind: str
    message: str
    needs: list[Fact] = field(default_factory=list[Fact])
    fresh: list[Call] = field(default_factory=list[Call])
    """Calls that the chore itself asks for; made once, they are not wasted."""
    rules: list[Rule] = field(default_factory=list[Rule])
    by_rule: list[Call] = field(default_factory=list[Call])
    """Calls that come first for a reader who knows the rules."""
    act: Callable[[dict[str, str], dict[str, str]], Call] | None = None
    """Values by kind and the values of known rules → the call that does it."""
    says: str = "Done."
    """The closing sentence; `{kind}` stands for a value."""


SUPPLIERS = ("Halden & Sons", "Brightwater", "Oskar Timber", "Nordlys Print", "Calloway Freight", "Mirabel Foods",
             "Tessellate Labs", "Quarry Lane", "Vesper Energy", "Aldous Optics", "Pinnick Steel", "Rosewood Legal")  # fmt: skip
ROLES = ("auditor", "tax adviser", "night operator", "customs broker", "landlord", "translator",
         "release manager", "data protection officer")  # fmt: skip
FIRST = (
    "Petra",
    "Ingrid",
    "Tomas",
    "Amara",
    "Felix",
    "Noor",
    "Jonas",
    "Leila",
    "Marta",
    "Owen",
    "Sanne",
    "Viktor",
)
LAST = (
    "Lindqvist",
    "Moe",
    "Okafor",
    "Brandt",
    "Castellan",
    "Haddad",
    "Weir",
    "Novak",
    "Tanaka",
    "Ferrer",
    "Osei",
    "Quill",
)
SERVICES = (
    "rates",
    "gateway",
    "billing",
    "search",
    "archive",
    "mailer",
    "scheduler",
    "catalog",
    "reports",
    "session",
)
KEYS = ("retry_limit", "timeout_seconds", "pool_size", "batch_rows", "max_body_kb", "grace_period")
TOPICS = ("refunds", "customers", "exchange", "inventory", "payroll", "audit")
LIBRARIES = ("tinyxml", "fastcsv", "oldcrypt", "glyphs", "pdfkit")
WORDS = ("request", "buffer", "window", "archive", "cursor", "ledger", "totals", "stream", "parse", "header", "commit",
         "cache", "worker", "signal", "region", "column", "offset", "digest", "policy", "margin")  # fmt: skip
PATTERNS = {
    "person": r"\b[A-Z][a-z]+ (?:" + "|".join(LAST) + r")\b",
    "account": r"\bK\d{4}\b",
    "ticket": r"\b[A-Z]{3}-\d{4}\b",
    "port": r"\b[89]\d{3}\b",
}
PHRASES = {
    "person": ("Our {subject} is {value}, in case you have to write there.", "{value} is the {subject} these days.",
               "I was on the phone with the {subject}, {value}, for an hour.", "btw the {subject} is called {value}",
               "If something looks odd, the {subject} ({value}) will know."),
    "account": ("{subject} goes on {value}.", "Please post {subject} to {value} from this month on.",
                "The account for {subject}? {value}.", "{value} is where {subject} belongs, I checked with the bank.",
                "and {subject} is {value} in the chart of accounts"),
    "ticket": ("What we do about {subject} is tracked in {value}.", "{value} is the ticket for {subject}.",
               "I opened {value}, that is the one about {subject}.", "ticket for {subject}: {value}"),
    "port": ("The staging {subject} listens on {value}.", "{subject} got a port of its own on staging, {value}.",
             "On staging {value} is {subject} and nothing else.", "fyi {subject} runs on {value} there (staging)"),
}  # fmt: skip
CORRECTIONS = {
    "person": "The {subject} changed, it is {value} now.", "account": "Correction: {subject} goes on {value}, not where I said.",
    "ticket": "The ticket for {subject} was merged, use {value} instead.", "port": "They moved {subject} on staging, it is on {value} now.",
}  # fmt: skip
CHATTER = (
    "Thanks, that looks right.", "I am in meetings until three.", "The build machine is slow today, be patient with it.",
    "No hurry with this one.", "Yesterday's export was fine by the way.", "The old code came from a contractor.",
    "We talked about this at lunch.", "I will look at the rest tomorrow.", "ok", "Great.",
)  # fmt: skip
RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("vendor", (r"vendor/", r"patches/"),
     ("Never change anything below vendor/, put a patch file into patches/ instead.",
      "hands off vendor/ please, patches go to patches/",
      "I don't want to see edits in vendor/ again; a diff in patches/ is how we do that here.",
      "不要修改 vendor/ 里的文件，补丁放到 patches/ 里。")),
    ("approval", (r"(?i)approv|sign.?off", r"(?:above|over|larger than) (\d,\d{3})\b"),
     ("Everything above {value} euros needs my approval, so tag it needs-approval.",
      "From now on bookings over {value} get the tag needs-approval, the bank wants a sign-off.",
      "amounts larger than {value}: tag needs-approval, always")),
    ("copy", (r"\bin cc\b|copy \(cc\)", PATTERNS["person"]),
     ("Mails that leave the house go to {value} in cc, too.", "put {value} in cc whenever you mail somebody outside",
      "{value} wants a copy (cc) of every mail that you send for me.")),
    ("format", (r"(?i)notes", r"\.rst\b"),
     ("Notes are .rst files here, not Markdown.", "please no md for notes, we use .rst",
      "The wiki only takes notes as .rst, so make them like that.", "notes 一律用 .rst 格式，不要 Markdown。")),
    ("tests", (r"(?i)deploy", r"(?i)\btests?\b"),
     ("Run the tests of a service before you deploy it, every time.", "no deploy without a test run of that service first",
      "Before any deploy I want to see the tests run.")),
)  # fmt: skip


class World:
    def __init__(self, seed: int, steps: int | None = None) -> None:
        self.seed, self.chance = seed, random.Random(f"chores {seed}")
        self.target = steps or self.chance.randint(*STEPS)
        self.facts: dict[tuple[str, str], Fact] = {}
        self.rules: dict[str, Rule] = {}
        self.order: list[tuple[str, str]] = []
        self.files: dict[str, str] = {}
        self.answers: dict[Call, str] = {}
        self.invoices = iter(self.chance.sample(range(4100, 4999), 400))
        self.pending_rules = self.chance.sample(RULES, len(RULES))
        self.first_rules = self.chance.randint(1, 3)
        for service in SERVICES:
            self.files[f"services/{service}/config.toml"] = self._config(service)
        self.chores: list[Chore] = []
        planned = 0
        while planned < self.target:
            chore = self._chore(len(self.chores))
            self.chores.append(chore)
            planned += len(chore.fresh) + len(chore.by_rule) + (chore.act is not None)

    # ── tools ───────────────────────────────────────────────────────────────────────────────────

    def answer(self, made: Call) -> str:
        """What a tool says. The same call gets the same answer, whether it was right or not."""
        tool, arguments = made[0], dict(made[1])
        if made in self.answers:
            return self.answers[made]
        if tool == "read":
            return self.files.get(arguments["path"], f"No such file: {arguments['path']}")
        if tool == "book":
            return f"Posted {arguments['invoice']} to {arguments['account']} as {self.entry(arguments['invoice'])}.\n{self._lines('open item', 8, made)}"
        if tool == "find_entry":
            return (
                f"{arguments['invoice']}: {self.entry(arguments['invoice'])}\n{self._lines('entry', 5, made)}"
            )
        return f"{tool}: ok\n{self._lines(tool, 3, made)}"

    def entry(self, invoice: str) -> str:
        return f"L-{random.Random(f'{self.seed} {invoice}').randint(1000, 9999)}"

    def _lines(self, what: str, most: int, key: object) -> str:
        """Lines that nobody will ask for."""
        chance = random.Random(f"{self.seed} {key}")
        return "\n".join(
            f"{what} {number}: {' '.join(chance.choices(WORDS, k=7))} {chance.random():.3f}"
            for number in range(chance.randint(1, most))
        )

    def _config(self, service: str) -> str:
        chance = self.chance
        lines = [
            f"{' '.join(chance.choices(WORDS, k=2)).replace(' ', '_')} = {chance.randint(1, 900)}"
            for _ in range(chance.randint(20, 110))
        ]
        for key in KEYS:
            lines.insert(chance.randrange(len(lines)), f"{key} = {chance.randint(11, 990)}")
        return "\n".join([f"# configuration of {service}", *lines])

    # ── what the user types ─────────────────────────────────────────────────────────────────────

    def _chore(self, number: int) -> Chore:
        kinds = (self._look, self._set, self._book, self._book, self._reverse, self._mail, self._test, self._fix,
                 self._note, self._add, self._decide, self._extend, self._deploy, self._patch,
                 self._survey, self._debug, self._debug)  # fmt: skip
        before, after = list[str](), list[str]()
        told = [key for key in self.order if key[0] in PHRASES]
        if self.pending_rules and (number < self.first_rules or self.chance.random() < 0.08):
            (before if self.chance.random() < 0.5 else after).append(self._rule())
        while self.chance.random() < (0.9 if number < 4 else 0.4):
            (before if self.chance.random() < 0.5 else after).append(self._remark(told))
        if self.chance.random() < 0.5:
            before.insert(0, self.chance.choice(CHATTER))
        if self.chance.random() < 0.3:
            after.append(self.chance.choice(CHATTER))
        if self.chance.random() < 0.06:
            before.insert(0, f"This is what I see here:\n{self._log(60)}\n")
        chore = next(made for made in iter(lambda: self.chance.choice(kinds)(), 0) if made is not None)
        parts = [*before, chore.message, *after]
        chore.message = "".join(part + (" " if part[-1] in ".!?" else "\n") for part in parts).strip()
        return chore

    def _log(self, most: int) -> str:
        stamp = self.chance.randint(0, 80_000)
        return "\n".join(
            f"[{stamp + row:06}] {self.chance.choice(('INFO', 'DEBUG', 'WARN'))} {' '.join(self.chance.choices(WORDS, k=8))}"
            for row in range(self.chance.randint(min(8, most), most))
        )

    def _rule(self) -> str:
        name, marks, phrases = self.pending_rules.pop()
        value = {
            "approval": f"{self.chance.randint(1, 6)},{self.chance.randint(0, 9)}00",
            "copy": self._person(),
        }.get(name, "")
        self.rules[name] = Rule(name, marks, value)
        return self.chance.choice(phrases).format(value=value)

    def _remark(self, told: list[tuple[str, str]]) -> str:
        """A fact in passing, or a correction of one that was told before."""
        if told and self.chance.random() < CORRECTED:
            kind, subject = told.pop(self.chance.randrange(len(told)))
            return self._state(kind, subject, CORRECTIONS[kind])
        kind = self.chance.choice(list(PHRASES))
        subject = self.chance.choice(
            {"person": ROLES, "account": SUPPLIERS, "ticket": TOPICS, "port": SERVICES}[kind]
        )
        if (kind, subject) in self.facts:
            return self.chance.choice(CHATTER)
        return self._state(kind, subject, self.chance.choice(PHRASES[kind]))

    def _state(self, kind: str, subject: str, phrase: str) -> str:
        chance = self.chance
        value = {"person": self._person, "account": lambda: f"K{chance.randint(2000, 8999)}",
                 "ticket": lambda: f"{chance.choice(('OPS', 'FIN', 'APP'))}-{chance.randint(1000, 9999)}",
                 "port": lambda: str(chance.randint(8001, 9899))}[kind]()  # fmt: skip
        self._know(Fact(kind, (subject,), PATTERNS[kind], value, "user"), subject)
        return phrase.format(subject=subject, value=value)

    def pick(self, *options: str) -> str:
        return self.chance.choice(options)

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def _person(self) -> str:
        return f"{self.chance.choice(FIRST)} {self.chance.choice(LAST)}"

    def _know(self, fact: Fact, name: str) -> Fact:
        key = fact.kind, name
        self.facts[key] = fact
        self.order = [*(one for one in self.order if one != key), key]
        return fact

    def _known(self, kind: str) -> tuple[str, Fact] | None:
        """One of the facts of a kind: of the newest, or of all."""
        newest = self.order[-6:] if self.chance.random() < RECENT else self.order
        keys = [key for key in newest if key[0] == kind] or [key for key in self.order if key[0] == kind]
        if not keys:
            return None
        key = self.chance.choice(keys)
        return key[1], self.facts[key]

    def _under(self, *names: str) -> list[Rule]:
        return [self.rules[name] for name in names if name in self.rules]

    # ── chores ──────────────────────────────────────────────────────────────────────────────────

    def _setting(self, service: str, key: str) -> Fact:
        path = f"services/{service}/config.toml"
        value = next(line for line in self.files[path].splitlines() if line.startswith(f"{key} = ")).split(
            " = "
        )[1]
        return Fact(
            "setting",
            (service, key),
            rf"{key}`? (?:=|is|of \w+ is) (\d+)",
            value,
            "tool",
            call("read", path=path),
        )

    def _look(self) -> Chore:
        service, key = self.chance.choice(SERVICES), self.chance.choice(KEYS)
        fact = self._know(self._setting(service, key), f"{service} {key}")
        path = f"services/{service}/config.toml"
        asked = self.pick(
            "Have a look at {path}: what is {key}?",
            "what does {path} say about {key}",
            "Look up {key} in {path}, please.",
        )
        told = self.pick(
            f"{key} is {{setting}}.",
            f"The {key} of {service} is {{setting}}.",
            f"It is set: {key} = {{setting}}. Nothing else stands out.",
        )
        return Chore("look", asked.format(path=path, key=key), [fact], [call("read", path=path)], says=told)

    def _survey(self) -> Chore:
        """Several files in a row; one line of each may be asked for later, and the report names only one of them."""
        services = self.chance.sample(SERVICES, self.chance.randint(3, 6))
        found = [(service, self.chance.choice(KEYS)) for service in services]
        facts = [self._know(self._setting(service, key), f"{service} {key}") for service, key in found]
        asked = ", ".join(f"{key} of {service}" for service, key in found)
        message = f"Go through the configuration below services/ and check these: {asked}."
        says = f"I read all of them. The {found[0][1]} of {found[0][0]} is {facts[0].value}, the others look sane."
        return Chore(
            "survey",
            message,
            [],
            [call("read", path=f"services/{service}/config.toml") for service in services],
            says=says,
        )

    def _debug(self) -> Chore:
        """Reading and trying that nobody asks about afterwards."""
        service = self.chance.choice(SERVICES)
        made = list[Call]()
        for _ in range(self.chance.randint(2, 6)):
            path = f"services/{service}/{self.word()}_{self.word()}.py"
            self.files[path] = "\n".join(
                f"{'    ' * self.chance.randint(0, 3)}{self.word()}_{self.word()}({', '.join(self.chance.choices(WORDS, k=3))})"
                for _ in range(self.chance.randint(20, 120))
            )
            made.append(call("read", path=path))
        made.append(call("write", path=path, content=f"{self.word()}_{self.word()}()"))
        return Chore(
            "debug",
            f"{service} is slow since this morning, find out why and do something about it.",
            [],
            made,
            says=f"I changed {path}; {self.word()} was computed twice.",
        )

    def _set(self) -> Chore | None:
        known = self._known("setting")
        if known is None:
            return None
        service, key = known[0].split()
        other = self.chance.choice([name for name in SERVICES if name != service])
        message = f"Give {other} the same {key} as {service} has; you looked that up before."
        path = f"overrides/{other}.toml"
        return Chore(
            "set",
            message,
            [known[1]],
            act=lambda v, _: call("write", path=path, content=f"override_{key}: {v['setting']}"),
        )

    def _book(self) -> Chore | None:
        known = self._known("account")
        if known is None:
            return None
        invoice, cents = str(next(self.invoices)), self.chance.randint(10, 99)
        amount = self.chance.randint(200, 9000)
        path, supplier = f"inbox/{invoice}.txt", known[0]
        self.files[path] = (
            f"{supplier}\nInvoice {invoice}\n{self._log(25)}\nTotal due: {amount:,}.{cents} EUR\n{self._log(6)}"
        )
        total = Fact(
            "total",
            (invoice,),
            r"Total due: ([\d,]+\.\d\d)",
            f"{amount:,}.{cents}",
            "tool",
            call("read", path=path),
        )
        entry = Fact(
            "entry",
            (invoice,),
            r"\bL-\d{4}\b",
            self.entry(invoice),
            "tool",
            call("find_entry", invoice=invoice),
        )

        def act(values: dict[str, str], rules: dict[str, str]) -> Call:
            limit = rules.get("approval")
            over = limit is not None and float(values["total"].replace(",", "")) > int(limit.replace(",", ""))
            return call(
                "book",
                invoice=invoice,
                account=values["account"],
                amount=values["total"],
                tag="needs-approval" if over else "",
            )

        asked = self.pick(
            f"Book {path} from {supplier}.",
            f"There is a new invoice of {supplier}, {path}. Post it.",
            f"{path} ({supplier}) has to go into the ledger",
        )
        rules = self._under("approval")
        self._know(entry, invoice)
        return Chore(
            "book",
            asked,
            [total, known[1]],
            [call("read", path=path)],
            rules,
            [],
            act,
            self.pick("Posted.", f"Invoice {invoice} is in the ledger.", "Booked {total} to {account}."),
        )

    def _reverse(self) -> Chore | None:
        known = self._known("entry")
        if known is None:
            return None
        message = self.pick(
            f"The booking of invoice {known[0]} was a mistake, reverse it.",
            f"please reverse {known[0]} in the ledger",
        )
        return Chore("reverse", message, [known[1]], act=lambda v, _: call("reverse", entry=v["entry"]))

    def _mail(self) -> Chore | None:
        person, ticket = self._known("person"), self._known("ticket")
        if person is None or ticket is None:
            return None
        message = self.pick(
            "Write to the {p} about {t}, with the ticket in the subject.",
            "mail the {p}: where do we stand with {t}? ticket number in the subject line",
        )
        return Chore(
            "mail", message.format(p=person[0], t=ticket[0]), [person[1], ticket[1]], [], self._under("copy"), [],
            lambda v, r: call("mail", to=v["person"], subject=v["ticket"], cc=r.get("copy", "")), "The mail is out.",
        )  # fmt: skip

    def _test(self) -> Chore:
        service = self.chance.choice(SERVICES)
        name = f"tests/{service}/test_{self.word()}.py::test_{self.word()}_{self.word()}"
        made = call("run_tests", service=service, run=str(self.chance.randint(100, 999)))
        passed = [
            f"tests/{service}/test_{self.word()}.py {'.' * self.chance.randint(3, 40)}"
            for _ in range(self.chance.randint(6, 40))
        ]
        at = self.chance.randrange(len(passed))
        self.answers[made] = "\n".join(
            [*passed[:at], f"FAILED {name} - assert {self.chance.randint(1, 99)} == 0", *passed[at:]]
        )
        fact = self._know(
            Fact("test", (service,), rf"\btests/{service}/\w+\.py::\w+", name, "tool", made), service
        )
        message = f"Run the tests of {service} (run {made[1][1][1]}) and tell me how many files pass."
        return Chore(
            "test",
            message,
            [],
            [made],
            says=self.pick(
                "One test fails, the rest pass.",
                f"{fact.value} fails.",
                f"All but one pass ({len(passed)} files).",
            ),
        )

    def _fix(self) -> Chore | None:
        known = self._known("test")
        if known is None:
            return None
        message = f"Mark the test of {known[0]} that failed last as flaky."
        return Chore("fix", message, [known[1]], act=lambda v, _: call("mark_flaky", test=v["test"]))

    def _note(self) -> Chore | None:
        free = [name for name in SUPPLIERS if ("notes", name) not in self.facts]
        if not free:
            return None
        supplier, rules = self.chance.choice(free), self._under("format")
        stem = self.pick(
            supplier.split()[0].lower(),
            f"{self.word()}-{self.word()}",
            f"2031-{self.chance.randint(1, 12):02}-terms",
        )
        path = f"notes/{stem}{len(self.order)}"
        self._know(Fact("notes", (supplier,), r"\bnotes/[\w-]+", path, "agent"), supplier)
        message = f"Start a notes file for {supplier}, name it as you like."
        return Chore(
            "note", message, [], [], rules, [],
            lambda _, r: call("write", path=f"{path}.{'rst' if 'format' in r else 'md'}", content=f"Terms of {supplier}"),
            self.chance.choice((f"I keep them in {path}.", f"The file for {supplier} is {path}.", "It is there.")),
        )  # fmt: skip

    def _add(self) -> Chore | None:
        known = self._known("notes")
        if known is None:
            return None
        line = " ".join(self.chance.choices(WORDS, k=5))
        return Chore(
            "add",
            f"Put this into the notes of {known[0]}: {line}",
            [known[1]],
            act=lambda v, _: call("append", path=v["notes"], line=line),
        )

    def _decide(self) -> Chore | None:
        free = [name for name in TOPICS if ("table", name) not in self.facts]
        if not free:
            return None
        topic, (name, other) = (
            self.chance.choice(free),
            self.chance.sample(("v3", "base", "main", "flat", "wide"), 2),
        )
        table = f"{topic}_{name}"
        self._know(Fact("table", (topic,), rf"\b{topic}_(?:v3|base|main|flat|wide)\b", table, "agent"), topic)
        says = self.chance.choice((f"I went with {table} for {topic}. A name like {topic[:3]}_{other} would have clashed with the view.",
                                   f"{table} it is. The rest of the plan for {topic} stays as we had it.", f"For {topic} I chose {table} because the columns are settled."))  # fmt: skip
        return Chore(
            "decide",
            f"We need an export table for {topic}: decide how to call it and tell me.",
            [],
            [call("list_tables", schema=topic)],
            says=says,
        )

    def _extend(self) -> Chore | None:
        known = self._known("table")
        if known is None:
            return None
        column = self.word()
        return Chore(
            "extend",
            f"Add a column {column} to the export table for {known[0]}.",
            [known[1]],
            act=lambda v, _: call("add_column", table=v["table"], column=column),
        )

    def _deploy(self) -> Chore | None:
        known = self._known("port")
        if known is None:
            return None
        rules = self._under("tests")
        run = call("run_tests", service=known[0], run="before deploy")
        self.answers[run] = "\n".join(f"tests/{known[0]}/test_{word}.py {'.' * 9}" for word in WORDS)
        return Chore(
            "deploy",
            f"Deploy {known[0]} to staging.",
            [known[1]],
            [],
            rules,
            [run] if rules else [],
            lambda v, _: call("deploy", service=known[0], port=v["port"]),
        )

    def _patch(self) -> Chore:
        library, line = self.chance.choice(LIBRARIES), self.chance.randint(10, 400)
        rules = self._under("vendor")

        def act(_: dict[str, str], known: dict[str, str]) -> Call:
            folder = "patches" if "vendor" in known else "vendor"
            return call("write", path=f"{folder}/{library}-{line}.diff", content=f"@@ -{line} +{line} @@")

        return Chore("patch", f"{library} has an off-by-one in line {line}, fix that.", rules=rules, act=act)


def right(chore: Chore) -> Call | None:
    """The call that does the chore."""
    values = {fact.kind: fact.value for fact in chore.needs}
    return chore.act(values, {rule.name: rule.value for rule in chore.rules}) if chore.act else None
