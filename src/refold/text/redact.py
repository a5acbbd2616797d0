"""Secrets out of text, before it leaves for a summariser, an export or a report.

One table of formats (data, with where each is documented) and one pass: a format's pattern only runs where
one of its literals occurs, so text without secrets costs a few substring searches. Two rules without a fixed
format, assignments (`password = "…"`) and credentials in URLs, look at how random the value is.
"""
# ruff: noqa: E501 (rows of a table: one format a row)

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, cast

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A secret that was replaced: what kind, and where it stood in the original text. Never the secret."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"[redacted:{self.kind}]"


class Format(NamedTuple):
    kind: str
    literals: tuple[str, ...]
    """One of these must occur in the text."""
    pattern: str
    """Group 1, where there is one, is the secret."""
    source: str
    before: tuple[int, ...] = (0,)
    """How many characters before the literal the match may start."""


_HEX = "0-9a-f"
FORMATS: tuple[Format, ...] = (
    Format("aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", "docs.aws.amazon.com/IAM: unique identifiers"),
    Format("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,251}\b", "github.blog: authentication token formats"),
    Format("github-pat", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{40,255}\b", "docs.github.com: fine-grained tokens"),
    Format("gitlab-token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-"), r"\bgl(?:pat|dt|rt|ptt|cbt|soat)-[\w-]{20,100}", "docs.gitlab.com: token prefixes"),
    Format("slack-token", ("xoxb-", "xoxp-", "xoxa-", "xoxo-", "xoxr-", "xoxs-", "xoxe", "xapp-"), r"\b(?:xox[abopsre](?:\.xox[bp])?|xapp)-[\w-]{10,250}", "api.slack.com: token types"),
    Format("slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,120})", "api.slack.com: incoming webhooks"),
    Format("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,240}\b", "docs.stripe.com: API keys"),
    Format("stripe-webhook", ("whsec_",), r"\bwhsec_[A-Za-z0-9+/=]{24,120}", "docs.stripe.com: webhook signatures"),
    Format("google-api-key", ("AIza",), r"\bAIza[\w-]{35}(?![\w-])", "cloud.google.com: API keys"),
    Format("google-oauth", ("GOCSPX-", "ya29."), r"\bGOCSPX-[\w-]{28}|\bya29\.[\w-]{20,400}", "developers.google.com: OAuth 2.0"),
    Format("anthropic-key", ("sk-ant-",), r"\bsk-ant-[a-z0-9]{2,12}-[\w-]{20,200}", "docs.anthropic.com"),
    Format("openai-key", ("sk-",), r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,250}|\bsk-(?!ant-|or-)(?=[A-Za-z]{0,47}\d)[A-Za-z0-9]{32,100}(?![\w-])", "platform.openai.com"),
    Format("openrouter-key", ("sk-or-",), rf"\bsk-or-v\d-[{_HEX}]{{40,80}}\b", "openrouter.ai/docs"),
    Format("huggingface-token", ("hf_", "api_org_"), r"\b(?:hf_|api_org_)[A-Za-z0-9]{34,40}\b", "huggingface.co/docs"),
    Format("npm-token", ("npm_",), r"\bnpm_[A-Za-z0-9]{36}\b", "npm documentation: access tokens"),
    Format("pypi-token", ("pypi-",), r"\bpypi-[A-Za-z0-9_-]{50,300}", "PyPI help: API tokens"),
    Format("sendgrid-key", ("SG.",), r"\bSG\.[\w-]{16,32}\.[\w-]{30,64}", "docs.sendgrid.com: API keys"),
    Format("twilio-key", ("SK", "AC"), rf"\b(?:SK|AC)[{_HEX}]{{32}}\b", "twilio.com/docs: API keys"),
    Format("mailgun-key", ("key-",), rf"\bkey-[{_HEX}]{{32}}\b", "documentation.mailgun.com"),
    Format("mailchimp-key", ("-us",), rf"\b[{_HEX}]{{32}}-us\d{{1,2}}\b", "mailchimp.com/developer", (32,)),
    Format("square-token", ("sq0atp-", "sq0csp-", "sq0idp-", "EAAA"), r"\bsq0(?:atp|csp|idp)-[\w-]{22,43}|\bEAAA[a-zA-Z0-9_-]{60}\b", "developer.squareup.com"),
    Format("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "shopify.dev: access tokens"),
    Format("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), rf"\bdo[opr]_v1_[{_HEX}]{{64}}\b", "docs.digitalocean.com: tokens"),
    Format("discord-token", ("MT", "MD", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT", "Oj"), r"\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])", "discord.com/developers: authentication"),
    Format("discord-webhook", ("/api/webhooks/",), r"/api/webhooks/(\d{17,20}/[\w-]{60,80})", "discord.com/developers: webhooks"),
    Format("telegram-token", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])", "core.telegram.org/bots", (8, 9, 10)),
    Format("atlassian-token", ("ATATT3", "ATCTT3", "ATBB"), r"\bAT(?:ATT|CTT)3[\w=-]{80,300}|\bATBB[A-Za-z0-9]{32}\b", "support.atlassian.com: API tokens"),
    Format("databricks-token", ("dapi",), rf"\bdapi[{_HEX}]{{32}}(?:-\d)?\b", "docs.databricks.com: tokens"),
    Format("linear-key", ("lin_api_", "lin_oauth_"), r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,64}\b", "developers.linear.app"),
    Format("notion-token", ("secret_", "ntn_"), r"\bsecret_[A-Za-z0-9]{43}\b|\bntn_[A-Za-z0-9]{40,60}\b", "developers.notion.com"),
    Format("vault-token", ("hvs.", "hvb.", "hvr."), r"\bhv[sbr]\.[\w-]{24,300}", "developer.hashicorp.com/vault: tokens"),
    Format("terraform-token", (".atlasv1.",), r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,90}", "developer.hashicorp.com/terraform", (14,)),
    Format("age-key", ("AGE-SECRET-KEY-1",), r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b", "age-encryption.org"),
    Format("grafana-token", ("glsa_", "glc_"), r"\bglsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}\b|\bglc_[A-Za-z0-9+/=]{32,400}", "grafana.com/docs: service accounts"),
    Format("newrelic-key", ("NRAK-", "NRJS-", "NRII-"), r"\bNR(?:AK|JS|II)-[A-Za-z0-9_-]{19,32}", "docs.newrelic.com: API keys"),
    Format("postman-key", ("PMAK-",), rf"\bPMAK-[{_HEX}]{{24}}-[{_HEX}]{{34}}\b", "learning.postman.com"),
    Format("docker-token", ("dckr_pat_", "dckr_oat_"), r"\bdckr_[po]at_[\w-]{27,40}", "docs.docker.com: access tokens"),
    Format("planetscale-token", ("pscale_",), r"\bpscale_(?:pw|tkn|oauth)_[\w.=-]{32,64}", "planetscale.com/docs"),
    Format("doppler-token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), r"\bdp\.(?:pt|ct|sa|st(?:\.[a-z0-9_-]{2,35})?)\.[A-Za-z0-9]{40,44}\b", "docs.doppler.com"),
    Format("groq-key", ("gsk_",), r"\bgsk_[A-Za-z0-9]{40,60}\b", "console.groq.com"),
    Format("replicate-token", ("r8_",), r"\br8_[A-Za-z0-9]{37}\b", "replicate.com/docs"),
    Format("xai-key", ("xai-",), r"\bxai-[A-Za-z0-9]{60,100}\b", "docs.x.ai"),
    Format("perplexity-key", ("pplx-",), r"\bpplx-[A-Za-z0-9]{40,64}\b", "docs.perplexity.ai"),
    Format("supabase-token", ("sbp_", "sb_secret_"), rf"\bsbp_[{_HEX}]{{40}}\b|\bsb_secret_[\w-]{{20,60}}", "supabase.com/docs"),
    Format("sentry-token", ("sntrys_", "sntryu_"), r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,400}", "docs.sentry.io: auth tokens"),
    Format("pulumi-token", ("pul-",), rf"\bpul-[{_HEX}]{{40}}\b", "pulumi.com/docs"),
    Format("rubygems-key", ("rubygems_",), rf"\brubygems_[{_HEX}]{{48}}\b", "guides.rubygems.org"),
    Format("crates-token", ("cio",), r"\bcio[A-Za-z0-9]{32}\b", "crates.io"),
    Format("sonar-token", ("squ_", "sqp_", "sqa_"), rf"\bsq[upa]_[{_HEX}]{{40}}\b", "docs.sonarsource.com"),
    Format("figma-token", ("figd_",), r"\bfigd_[\w-]{38,60}", "figma.com/developers"),
    Format("airtable-token", ("pat",), rf"\bpat[A-Za-z0-9]{{14}}\.[{_HEX}]{{64}}\b", "airtable.com/developers"),
    Format("heroku-key", ("HRKU-",), r"\bHRKU-[\w-]{36,70}", "devcenter.heroku.com"),
    Format("easypost-key", ("EZAK", "EZTK"), r"\bEZ[AT]K[A-Za-z0-9]{54}\b", "docs.easypost.com"),
    Format("flyio-token", ("FlyV1 ", "fm2_"), r"\bFlyV1 fm\d_[A-Za-z0-9+/=,_-]{60,900}|\bfm2_[A-Za-z0-9+/=]{100,900}", "fly.io/docs: tokens"),
    Format("azure-storage-key", ("AccountKey=", "SharedAccessKey="), r"\b(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,88}={0,2})", "learn.microsoft.com: connection strings"),
    Format("jwt", ("eyJ",), r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}", "RFC 7519"),
    Format("private-key", ("-----BEGIN ",), r"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\:,.]{40,20000}+(?:-----END [A-Z ]{0,40}-----)?", "RFC 7468"),
    Format("authorization", ("earer ", "EARER "), r"\b[Bb](?:earer|EARER) ([\w.~+/-]{20,2000}=*)", "RFC 6750", (1,)),
    Format("authorization-header", ("uthorization", "UTHORIZATION"), r"(?:uthorization|UTHORIZATION)[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:[A-Za-z][\w-]{2,20} )([\w.~+/-]{12,2000}={0,2})", "RFC 7617, RFC 6750"),
    Format("npmrc", (":_auth", ":_password"), r":_(?:auth(?:Token)?|password)\s{0,3}=\s{0,3}[\"']?([\w.~+/-]{8,400}={0,2})", "docs.npmjs.com: .npmrc"),
    Format("docker-auth", ('"auth"',), r"\"auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/]{12,500}={0,2})\"", "docs.docker.com: config.json"),
    Format("shared-access-signature", ("sig=",), r"(?<=[?&;])sig=([\w%+/=-]{20,200})", "learn.microsoft.com: SAS"),
    Format("pgpass", (":5432:",), r":5432:[\w*-]{1,60}:[\w*-]{1,60}:(\S{4,100})(?=\s|$)", "postgresql.org: the password file"),
    Format("command-line", ("curl ", "sshpass ", "docker login ", "redis-cli ", "mysql"),
           r"(?:curl [^\n]{0,300}?(?<= )(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:|(?:sshpass|docker login) [^\n]{0,200}?(?<= )-p ?[\"']?"
           r"|redis-cli [^\n]{0,200}?(?<= )-a ?[\"']?|mysql(?:dump|admin)? [^\n]{0,200}?(?<= )-p(?=[^\s\"'-]))([^\s\"']{4,200})", "manuals of these commands"),
    Format("aws-secret-key", ("aws", "AWS"), r"(?:aws|AWS)[\w-]{0,20}(?:[Ss]ecret|SECRET)[\w -]{0,20}[\"']?\s{0,3}(?:[=:]|=>)\s{0,3}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])", "docs.aws.amazon.com/IAM: access keys"),
    Format("url-credentials", ("://",), r"://[^\s:/@\"'<>`]{0,100}:([^\s:/@\"'<>`]{3,200})@[\w.\[-]", "RFC 3986"),
)  # fmt: skip
KINDS: tuple[str, ...] = (*dict.fromkeys(row.kind for row in FORMATS), "assignment", "cookie")

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_COMPILED = tuple((row, re.compile(row.pattern)) for row in FORMATS)
_RUN = 18
"""Shortest unbroken run of characters that a secret of a fixed format makes."""
_UNBROKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.:~-")
_SHAPE = bytes(ord("a") if code in _UNBROKEN else ord(" ") for code in range(256))
_PLAIN = b"abcdefghijklmnopqrstuvwxyz_+/=.:~-"
_LOOSE = frozenset(
    {
        "authorization",
        "authorization-header",
        "docker-auth",
        "npmrc",
        "shared-access-signature",
        "pgpass",
        "command-line",
        "aws-secret-key",
        "url-credentials",
        "private-key",
        "flyio-token",
    }
)
"""Formats whose literal stands outside of the secret."""
_KEYWORDS = (
    b"passw", b"passphrase", b"secret", b"token", b"_key", b"apikey", b"api-key", b"accesskey", b"credential", b"pwd", b"_pass",
    b"psk", b"_auth", b"signature",
)  # fmt: skip
_EXACT = (b"_pass", b"psk", b"_auth", b"signature")
"""Words that say so only where nothing follows them."""
_CODE = r"\s\"'`,;<>{}()\[\]$&|\\"
_ASSIGNED = re.compile(
    r"(?P<rest>[\w-]{0,24})(?:"
    rf"\\{{0,3}}[\"'\]]{{0,2}}[ \t]{{0,16}}(?:=>|:=|={{1,2}}|:|(?<=[\"']),)[ \t]{{0,16}}(?:(?:\\{{0,3}}[\"'`]|&quot;)(?P<quoted>[^\s\"'`\\&]{{6,200}}+)(?:\\{{0,3}}[\"'`]|&quot;)"
    rf"|(?P<bare>[^{_CODE}]{{6,200}}+)(?=[\s\"',;&<#]|$))"
    r"|[ \t](?:is|was)?[ \t:]{0,3}`(?P<told>[^\s`]{6,200}+)`"
    r"|>[ \t]{0,16}(?P<element>[^\s<>]{6,200}+)[ \t]{0,16}</"
    r"|\"\s{1,4}value\s{0,2}=\s{0,2}\"(?P<value>[^\s\"]{6,200}+)\""
    rf"|[ \t]{{1,4}}(?P<flag>[\"']?[^{_CODE}]{{6,200}}+)(?=[\s\"';&|]|$)"
    r")",
    re.M,
)
"""What follows a word that says secret: a value in one of the places where values stand."""
_STRONG = re.compile(
    r"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|(?:access|secret|private|auth|signing)[_-]?key|credentials?|_pass|psk|_auth)$"
)
"""Names that are nothing but secret. Others (`token_type`) have values that only look like one now and then."""
_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z][a-z]{2}|(?<![A-Za-z])[A-Z]{3,}(?![a-z])")
_NAME = re.compile(r"[\w-]{0,40}$")
_COOKIE = re.compile(r"(?i)(?<![\w])(?:set-)?cookie\\?[\"']?\s{0,3}:\s{0,3}[\"']?([^\n\"']{8,4000})")
_CRUMB = re.compile(r"[^\s=;,]{1,80}=([^\s=;,\"']{16,1000})")
_PLACEHOLDER = re.compile(
    r"(?i)example|change.?me|your|xxx|placeholder|dummy|redacted|\*\*\*|\.\.\.|<|\$\{|\{\{|%\(|test|sample|fake|none|null|"
    r"password|passw|secret|token|foobar|abcdef|123456|hunter2|process\.env|os\.environ"
)


def redact(text: str) -> tuple[str, list[Finding]]:
    """The text with every secret replaced by `[redacted:KIND]`, and what was replaced, in order."""
    found = sorted(_found(text), key=lambda f: (f.start, -f.end))
    if not found:
        return text, []
    pieces: list[str] = []
    kept: list[Finding] = []
    at = 0
    for finding in found:
        if finding.start < at:
            continue
        pieces += [text[at : finding.start], finding.mark]
        kept.append(finding)
        at = finding.end
    return "".join((*pieces, text[at:])), kept


def _found(text: str) -> Iterator[Finding]:
    if "\x1b" in text:  # a colour is no part of what it colours; places stay the same
        text = _COLOUR.sub(lambda colour: " " * len(colour[0]), text)
    # One byte per character, so that places agree; bytes are searched several times faster than text.
    raw = text.encode("ascii", "replace")
    runs = _runs(raw)
    joined = runs.decode("ascii")
    for row, pattern in _COMPILED:
        group = 1 if pattern.groups else 0
        loose = row.kind in _LOOSE
        for literal in row.literals:
            if literal.encode() not in (raw if loose else runs):
                continue
            # Many words begin like a secret: the runs alone tell most of them from one.
            if not loose and not any(_matches(joined, literal, row.before, pattern)):
                continue
            for match in _matches(text, literal, row.before, pattern):
                if _plausible(row.kind, match[group]):
                    yield Finding(row.kind, match.start(group), match.end(group))
    lowered = raw.lower()
    yield from _assignments(text, lowered)
    if b"cookie" in lowered:
        yield from _cookies(text)


def _cookies(text: str) -> Iterator[Finding]:
    for header in _COOKIE.finditer(text):
        for crumb in _CRUMB.finditer(text, header.start(1), header.end(1)):
            if _random(crumb[1]):
                yield Finding("cookie", crumb.start(1), crumb.end(1))


def _runs(raw: bytes) -> bytes:
    """The long unbroken runs that are no plain words: a few per cent of ordinary text, and all a secret can
    hide in."""
    shape = raw.translate(_SHAPE)
    found: list[bytes] = []
    least = b"a" * _RUN
    at = shape.find(least)
    while at >= 0:
        end = shape.find(b" ", at)
        end = len(raw) if end < 0 else end
        run = raw[at:end]
        if run.translate(None, _PLAIN):
            found.append(run)
        at = shape.find(least, end)
    return b"\n".join(found)


def _matches(
    text: str, literal: str, before: tuple[int, ...], pattern: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    """Matches around each occurrence of a literal: searching for it is far cheaper than for the pattern."""
    at = text.find(literal)
    while at >= 0:
        end = at + 1
        for back in before:
            match = pattern.match(text, at - back) if at >= back else None
            if match:
                yield match
                end = max(end, match.end())
                break
        at = text.find(literal, end)


def _plausible(kind: str, value: str) -> bool:
    """Documentation is full of examples; they are no secrets."""
    if kind == "private-key":
        return True
    if kind in ("url-credentials", "command-line", "pgpass"):
        return (
            not _PLACEHOLDER.search(value)
            and not value.startswith(("$", "{", "%", "*"))
            and value.lower() != "pass"
            and (kind == "url-credentials" or _mixed(value) or not _is_name(value))
        )
    if value.endswith("EXAMPLE") or "EXAMPLE" in value:
        return False
    # A run of one character is a picture of a key.
    return len(set(value[-16:])) > 4


def _assignments(text: str, lowered: bytes) -> Iterator[Finding]:
    """Values that look random, given to names that say they are secret."""
    for keyword in _KEYWORDS:
        at = lowered.find(keyword)
        while at >= 0:
            match = _ASSIGNED.match(text, at + len(keyword))
            if match and not (keyword in _EXACT and match["rest"]):
                place = cast("str", match.lastgroup)
                value = match[place].rstrip(".:") if place == "bare" else match[place].strip("\"'")
                before = cast("re.Match[str]", _NAME.search(text, max(0, at - 40), at))
                name = before[0] + text[at : match.end("rest")]
                if _is_secret(name, place, value, text, before.start()):
                    start = match.start(place) + match[place].find(value)
                    yield Finding("assignment", start, start + len(value))
            at = lowered.find(keyword, match.end("rest") + 1 if match else at + len(keyword))


def _is_secret(name: str, place: str, value: str, text: str, start: int) -> bool:
    strong = _STRONG.search(name) is not None
    if text[start - 1 : start] == ":" and place == "bare":
        return False  # `arn:aws:secretsmanager:…:secret:NAME`
    if place == "flag":
        # A word after a word: only behind a flag, or in a netrc, where a login stands before it.
        return (
            strong
            and (name.startswith("--") or "login " in text[max(0, start - 120) : start])
            and _mixed(value)
        )
    if place == "bare" and strong and len(value) < 16:
        # In code such a value is a name: there must be more than names have.
        return _mixed(value) and not _is_name(value)
    if strong and place != "bare":
        return _random(value) or (_mixed(value) and not _is_name(value))
    return len(value) >= (16 if place == "bare" else 10) and _random(value)


def _is_name(value: str) -> bool:
    """Words put together as names are: more than half of it is words."""
    return 2 * sum(map(len, _WORD.findall(value))) >= len(value)


def _mixed(value: str) -> bool:
    """Short, but of several kinds of characters that change too often for a name."""
    if _PLACEHOLDER.search(value) or value.startswith(
        ("/", "./", "http", "--", "@", "$", "%", "{", "<", "*")
    ):
        return False
    classes = [_class_of(char) for char in value]
    if "0" not in classes or not {"a", "A"} & set(classes):
        return _shifting(classes)
    return entropy(value) >= min(2.4, 0.75 * math.log2(len(value))) and _changes(classes) >= max(
        2, len(value) // 5
    )


def _shifting(classes: list[str]) -> bool:
    """Letters alone are random where their case changes all the time."""
    return {"a", "A"} <= set(classes) and _changes(classes) >= max(3, len(classes) // 4)


def _class_of(char: str) -> str:
    return "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-"


def _changes(classes: list[str]) -> int:
    """How often the kind of character changes; a capital before small letters is how words begin."""
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def _random(value: str) -> bool:
    """Letters and digits in a mix no person would type as a name: high entropy, no words, no code."""
    if _PLACEHOLDER.search(value) or value.startswith(("/", "./", "http", "--", "@")):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not digits:
        return len(value) >= 16 and value.isalnum() and _shifting([_class_of(char) for char in value])
    if not letters or digits + letters < 0.7 * len(value):
        return False
    if "_" in value and _is_name(value) and digits * 5 < len(value):
        return False
    if re.search(r"[a-z]{8,}|[A-Z]{8,}", value) and digits < 3:
        return False  # a word; letters of both cases mixed are none
    if re.fullmatch(
        r"[A-Za-z_]+[\w.]*(?:\.[A-Za-z_]\w*)+|[a-z_]+\d{0,3}|[A-Z_]+\d{0,3}|\d+(?:[.,:-]\d+)*", value
    ):
        return False
    return entropy(value) >= 3.0 + (0.3 if digits < 2 else 0)


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = [text.count(char) for char in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
