"""What is taken for a secret in made texts, as recorded: names, values and the places where both stand.

The rules have tests of their own; this one says that nothing else changed. Where it should have:

    REFOLD_RECORD=1 python -m pytest -p no:xdist tests/test_redact_recorded.py

writes the file anew, and its difference is what the change does: a row for each place and name, `x` where the value of
`VALUES` in that column is redacted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from refold.text.redact import redact

RECORD = Path(__file__).parent / "golden" / "redactions.json"
NAMES = (
    "password", "DB_PASSWORD", "dbPassword", "pwd", "passphrase", "token", "access_token", "TOKEN", "api_key",
    "apiKey", "client-secret", "secret", "SECRET_KEY", "key", "signature", "code", "backup code", "backup codes", "pin", "seed",
    "Authorization", "author", "max_tokens",
)  # fmt: skip
VALUES = (
    "rosebud", "open.sesame", "changeme", "Tr0ub4dor&3", "Summer2024", "correct-horse-battery-staple",
    "q1W2e3R4t5Y6u7I8o9P0", "8f14e45fceea167a5a36dedd4bea2543", "zyxwvutsrqponmlkjihg", "493817", "4938-1726",
    "2024-11-19", "true", "None", "os.environ['X']", "get_password()", "settings.password", "${PASSWORD}",
    "<your password>", "user@example.com", "/run/secrets/db", "https://api.test/v1", "$2b$12$abcdefghijklmnopqrstuv",
    "p455w0rd!", "пароль77", "*****", "a$B1c2D3e", "%(pass)s", "AbCdEfGhIjKlMnOpQrSt", "a1b2c3d4e5f6a7b8c9d0",
)  # fmt: skip
PLACES = (
    "{n}={v}", "{n} = {v}", '{n} = "{v}"', "{n}: {v}", '{{"{n}": "{v}"}}', "{n} => '{v}',", "export {n}={v}",
    "tool --{n}={v}", "tool --{n} {v} now", "set_{n}('{v}')", "config.{n}('{v}')", "[client]\nuser = x\n{n} = {v}\n",
    "user: x\n{n}: {v}\nport: 1", "The {n} is {v}.", "{n} for root:\n{v}", "| {n} | {v} |", "<{n}>{v}</{n}>",
    "GET /a?b=1&{n}={v} HTTP/1.1", "connect(user, {n}='{v}')", "if {n} == '{v}':", "const {n} = '{v}';",
    "my {n}: {v}, thanks", "user,{n}\nroot,{v}\n", "{n} := {v}", "def f({n}='{v}'):", "{n}={v}  # of the test",
    "{n}\n{v}\n", "Enter {n}: {v}", "Your {n}? {v}", "set{n}={v}", "{n}.value = '{v}'",
)  # fmt: skip


def redacted(place: str) -> dict[str, str]:
    def row(name: str) -> str:
        shown = (redact(place.format(n=name, v=value))[0] for value in VALUES)
        return "".join("." if value in text else "x" for value, text in zip(VALUES, shown, strict=True))

    return {name: row(name) for name in NAMES}


@pytest.mark.parametrize("place", PLACES)
def test_the_same_values_are_redacted(place: str) -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if "REFOLD_RECORD" in os.environ:
        record |= {place: redacted(place)}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    assert redacted(place) == record.get(place), "if it should: REFOLD_RECORD=1, and look at the difference"
