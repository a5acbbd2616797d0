"""What every store that can search must find: the same messages and questions for all of them."""

from __future__ import annotations

from refold import messages as m
from refold.entries import MessageEntry

_READ = m.call("c", "Read", {"path": "src/app/parser.py", "nested": {"deep": ["zebra"]}})
_SAID = {
    "plain": m.user("Never touch the database migrations"),
    "camel": m.assistant("I changed parseConfigFile and HTTPServer."),
    "chinese": m.user("請不要修改資料庫的遷移檔案"),
    "japanese": m.user("東京タワーへ行きました"),
    "korean": m.user("한국 데이터베이스"),
    "call": m.assistant("", _READ),
    "result": m.result("c", "TypeError: unsupported operand in snake_case_name"),
    "accents": m.user("Café Zürich"),
}
ENTRIES = [MessageEntry(id=id, message=message) for id, message in _SAID.items()]
FOUND = [
    (["migration"], "plain"),
    (["MIGRATIONS"], "plain"),
    (["config"], "camel"),
    (["parseConfigFile"], "camel"),
    (["server"], "camel"),
    (["資料庫"], "chinese"),
    (["遷"], "chinese"),
    (["東京"], "japanese"),
    (["데이터"], "korean"),
    (["zebra"], "call"),
    (["src/app/parser.py"], "call"),
    (["unsupported", "operand"], "result"),
    (["snake_case_name"], "result"),
    (["case"], "result"),
    (["cafe"], "accents"),
    (["zurich"], "accents"),
]
"""Terms, and the entry that is found first."""
