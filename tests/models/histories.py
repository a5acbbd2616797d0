"""One table of histories that every provider's request body is pinned for."""

from __future__ import annotations

from refold.messages import Message, Thinking, assistant, call, image, result, thinking, user
from refold.protocols import Request, ToolSpec

PIXEL = "iVBORw0KGgo="
READ = ToolSpec(
    "Read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
LOOK = (call("c1", "Read", path="a.py"), call("c2", "Read", path="b.py"))

HISTORIES: dict[str, tuple[Message, ...]] = {
    "plain": (user("Hello"), assistant("Hi."), user("Fix the bug.")),
    "tools": (user("Look."), assistant("Reading.", LOOK[0]), result("c1", "x = 1")),
    "parallel": (
        user("Look."),
        assistant("", *LOOK),
        result("c1", "x = 1"),
        result("c2", "boom", is_error=True),
        assistant("One failed."),
        user("Try again."),
    ),
    "thinking": (
        user("Why?"),
        assistant([thinking("Because.", "sig-1"), "I see.", *LOOK[:1]]),
        result("c1", "x = 1"),
    ),
    "sealed": (user("Why?"), assistant([Thinking("Hm.", data="sealed==", id="rs_1"), "So."]), user("And?")),
    "image": (user(["What is this?", image(PIXEL)]),),
    "picture from a tool": (user("Shoot."), assistant("", LOOK[0]), result("c1", ["A shot:", image(PIXEL)])),
    "fold": (
        user("Summary of the conversation so far:\n\n## Goal\nFix the login bug."),
        user("Go on."),
    ),
    "mask": (
        user("Look."),
        assistant("", LOOK[0]),
        result("c1", "[output of Read folded; key abc2345]"),
        user("Ok."),
    ),
}


def request(history: str, **options) -> Request:
    more = {"system": "Be brief.", "tools": (READ,), "max_tokens": 100, **options}
    return Request(messages=HISTORIES[history], **more)
