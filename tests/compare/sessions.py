"""Sessions that the tests of this folder compare on."""

from __future__ import annotations

from refold import messages as m
from refold.session import Session

RULE = "Never touch the files in migrations/."
REGEL = "提交信息必须用英文写。"


def agent_session(rounds: int = 12, *, size: int = 1_500, text: str = "lorem ipsum dolor ") -> Session:
    """A coding session: two rules, then so many readings of large files and edits of small ones."""
    session = Session(id="agent")
    session.append(m.system("You are a coding agent."))
    session.append(m.user(f"Please fix the login. {RULE} It is urgent."))
    for number in range(rounds):
        path = f"src/module_{number:02}/handler.py"
        if number == rounds // 2:
            session.append(m.user(f"继续。{REGEL}"))
        session.append(m.assistant("Reading.", m.call(f"r{number}", "Read", path=path)))
        session.append(
            m.result(f"r{number}", f"def handle_{number}_request():\n" + text * (size // len(text)))
        )
        edit = m.call(f"e{number}", "Edit", path=path, old_string="a", new_string=f"token_{number:05}")
        session.append(m.assistant("", edit))
        session.append(m.result(f"e{number}", "ok"))
    session.append(m.assistant("Once more.", m.call("again", "Read", path="src/module_00/handler.py")))
    session.append(m.result("again", "def handle_0_request(): ..."))
    session.append(m.user("And now the rest."))
    return session


def long_session(rounds: int = 12) -> Session:
    """One that every part of a page has something to show of: clips, lines, what is gone, a long word."""
    session = agent_session(rounds)
    session.append(m.user("Now look at the log. " + "x" * 400))
    for number in range(6):
        session.append(m.assistant("", m.call(f"b{number}", "Bash", command=f"make target_{number}")))
        lines = "\n".join(f"compiling unit_{number}_{line}.c" for line in range(120))
        session.append(m.result(f"b{number}", f"{lines}\nerror: unit_{number} failed", name="Bash"))
    return session
