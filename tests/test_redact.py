"""Secrets of many kinds are replaced; code is left alone; time grows with the text."""

from __future__ import annotations

import random
import string
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.text.redact import FORMATS, KINDS, redact
from tests.timing import JUDGED, seconds_of, within

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
WORD = ALNUM + "_-"
Maker = Callable[[random.Random], str]


def some(alphabet: str, count: int, prefix: str = "", suffix: str = "") -> Maker:
    return lambda rng: prefix + "".join(rng.choice(alphabet) for _ in range(count)) + suffix


def joined(*makers: Maker) -> Maker:
    return lambda rng: "".join(maker(rng) for maker in makers)


PEM = joined(
    some("", 0, "-----BEGIN RSA PRIVATE KEY-----\n"),
    *(some(ALNUM + "+/", 64, "", "\n") for _ in range(6)),
    some("", 0, "-----END RSA PRIVATE KEY-----"),
)
MAKERS: dict[str, Maker] = {
    "aws-access-key": some(string.ascii_uppercase + "234567", 16, "AKIA"),
    "aws-secret-key": some(ALNUM + "/+", 40, "aws_secret_access_key = "),
    "github-token": some(ALNUM, 36, "ghp_"),
    "github-pat": joined(some(ALNUM, 22, "github_pat_"), some(ALNUM, 59, "_")),
    "gitlab-token": some(WORD, 20, "glpat-"),
    "slack-token": joined(some(string.digits, 12, "xoxb-"), some(string.digits, 12, "-"), some(ALNUM, 24, "-")),
    "slack-webhook": joined(some(string.ascii_uppercase + string.digits, 9, "https://hooks.slack.com/services/T"), some(string.ascii_uppercase + string.digits, 9, "/B"), some(ALNUM, 24, "/")),
    "stripe-key": some(ALNUM, 24, "sk_live_"),
    "google-api-key": some(WORD, 34, "AIza", "x"),
    "google-oauth": some(WORD, 28, "GOCSPX-"),
    "anthropic-key": some(WORD, 95, "sk-ant-api03-"),
    "openai-key": some(ALNUM, 60, "sk-proj-"),
    "huggingface-token": some(string.ascii_letters, 34, "hf_"),
    "npm-token": some(ALNUM, 36, "npm_"),
    "pypi-token": some(WORD, 120, "pypi-AgEIcHlwaS5vcmc"),
    "sendgrid-key": joined(some(WORD, 22, "SG."), some(WORD, 43, ".")),
    "twilio-key": some(HEX, 32, "SK"),
    "mailgun-key": some(HEX, 32, "key-"),
    "mailchimp-key": some(HEX, 32, "", "-us12"),
    "square-token": some(WORD, 22, "sq0atp-"),
    "shopify-token": some(HEX, 32, "shpat_"),
    "digitalocean-token": some(HEX, 64, "dop_v1_"),
    "discord-token": joined(some(ALNUM, 22, "MT"), some(WORD, 6, "."), some(ALNUM, 27, ".")),
    "telegram-token": joined(some(string.digits[1:], 10), some(ALNUM, 33, ":AA")),
    "atlassian-token": some(WORD, 186, "ATATT3xFfGF0"),
    "databricks-token": some(HEX, 32, "dapi"),
    "linear-key": some(ALNUM, 40, "lin_api_"),
    "vault-token": some(WORD, 90, "hvs."),
    "azure-storage-key": some(ALNUM + "+/", 86, "AccountKey=", "=="),
    "jwt": joined(some(WORD, 36, "eyJhbGciOi"), some(WORD, 80, ".eyJzdWIi"), some(WORD, 43, ".")),
    "private-key": PEM,
    "url-credentials": some(ALNUM, 14, "postgres://admin:", "@db.internal:5432/app"),
    "authorization": some(ALNUM, 40, "Authorization: Bearer "),
    "assignment": some(ALNUM, 24, 'db_password = "', '"'),
    "grafana-token": joined(some(ALNUM, 32, "glsa_"), some(HEX, 8, "_")),
    "groq-key": some(ALNUM, 52, "gsk_"),
    "docker-token": some(WORD, 27, "dckr_pat_"),
}  # fmt: skip
PLACES = (
    "Here is the key: {}\nthanks", 'config = {{"value": "{}"}}', "export VALUE={}", "{}", "curl -H '{}' https://x.org",
    "看这里：{} 就是它", "log: got <{}> from server", "- `{}`",
)  # fmt: skip


def planted(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Kind, text with the secret in it, the secret's own characters."""
    rng = random.Random(seed)
    rows: list[tuple[str, str, str]] = []
    for index in range(count):
        kind = list(MAKERS)[index % len(MAKERS)]
        secret = MAKERS[kind](rng)
        rows.append((kind, rng.choice(PLACES).format(secret), secret))
    return rows


def test_thirty_kinds_of_planted_secrets_are_found() -> None:
    rows = planted(20260, 333)
    assert len(MAKERS) >= 30
    missed = [kind for kind, text, secret in rows if secret in redact(text)[0]]
    assert len(missed) <= 0.05 * len(rows), missed


def test_nothing_of_the_secret_remains() -> None:
    for kind, text, secret in planted(7, 111):
        clean, findings = redact(text)
        if findings:
            assert findings[0].kind in KINDS
            core = secret.splitlines()[1] if "\n" in secret else secret[-12:].strip('"')
            assert core not in clean or "@" in secret, kind


def test_a_second_opinion_finds_no_more() -> None:
    """What detect-secrets calls a secret by its format is gone after redaction."""
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import transient_settings

    plugins = ["AWSKeyDetector", "GitHubTokenDetector", "SlackDetector", "StripeDetector", "SendGridDetector",
               "NpmDetector", "JwtTokenDetector", "PrivateKeyDetector", "BasicAuthDetector", "AzureStorageKeyDetector",
               "DiscordBotTokenDetector", "MailchimpDetector", "SquareOAuthDetector", "TelegramBotTokenDetector",
               "TwilioKeyDetector", "OpenAIDetector", "GitLabTokenDetector", "PypiTokenDetector"]  # fmt: skip
    with transient_settings({"plugins_used": [{"name": name} for name in plugins]}):
        before = after = 0
        for _, text, _ in planted(99, 222):
            before += any(True for line in text.splitlines() for _ in scan_line(line))
            clean = redact(text)[0].replace("[redacted:private-key]", "")
            after += any(True for line in clean.splitlines() for _ in scan_line(line))
    assert before > 80
    assert after <= 0.02 * before


def code() -> list[Path]:
    roots = [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]
    files = [
        p
        for root in roots
        for p in sorted(root.rglob("*.py"))
        if "detect_secrets" not in p.parts and "test" not in p.parts
    ]
    return files[::6]


def test_code_is_left_alone() -> None:
    lines = hits = 0
    shown: list[str] = []
    for path in code():
        text = path.read_text(errors="replace")
        lines += text.count("\n")
        for finding in redact(text)[1]:
            hits += 1
            shown.append(f"{path.name}: {finding.kind}: {text[finding.start : finding.end][:60]}")
    assert lines > 50_000
    assert hits <= lines / 10_000, shown


@pytest.mark.parametrize(
    "text",
    ["password = getpass()", "token: str = ''", 'api_key = os.environ["OPENAI_API_KEY"]', "sk-learn is a library",
     "secret_key_base: <%= ENV['X'] %>", "AKIAIOSFODNN7EXAMPLE", "http://user:password@host/", "git@github.com:a/b.git",
     "commit 1f3e5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c5d7e9f", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "tokens_before = 12345678901234",
     "Bearer authentication is used here"],
)  # fmt: skip
def test_what_is_no_secret(text: str) -> None:
    assert redact(text) == (text, [])


def test_findings_point_into_the_original() -> None:
    key = MAKERS["github-token"](random.Random(1))
    text = f"a {key} b {key}"
    clean, findings = redact(text)
    assert clean == "a [redacted:github-token] b [redacted:github-token]"
    assert [text[f.start : f.end] for f in findings] == [key, key]
    assert redact(clean) == (clean, [])


def test_every_format_names_its_source() -> None:
    assert len(FORMATS) >= 30
    assert len({row.kind for row in FORMATS}) == len(FORMATS)
    assert all(row.source and row.literals for row in FORMATS)


@pytest.mark.timing
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "sk-",
        "-----BEGIN PRIVATE KEY-----",
        "password=",
        "://a:",
        "eyJa.",
        "M" * 23 + ".",
        "token: 'aB3",
        "0-us",
        "İ",
    ],
)
def test_hostile_text_is_linear(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    with within(3):
        redact(text)


@pytest.mark.timing
@pytest.mark.torture
def test_speed_on_ordinary_text() -> None:
    text = "\n".join(path.read_text(errors="replace") for path in code()[:400])[:4_000_000]
    best = min(seconds_of(lambda: redact(text)) for _ in range(3))
    assert not JUDGED or len(text) / best > 8_000_000, f"{len(text) / best / 1e6:.1f} MB/s"


@given(st.text(max_size=300))
def test_redaction_is_stable(text: str) -> None:
    clean, _ = redact(text)
    assert redact(clean)[0] == clean
