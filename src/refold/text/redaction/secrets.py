"""Marks of a secret value: names, prefixes of tokens, places, and programs that take one.

Tables only. Most secrets are found by place or randomness, so a vendor that is missing
here costs a label, not a secret.
"""
# ruff: noqa: E501 (rows of a table: one a row)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from refold.text.patterns import lazy_pattern


class SecretFinding(msgspec.Struct, frozen=True):
    """A replaced secret: its kind and its place in the original text, never its value."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """The replacement."""
        return f"[redacted:{self.kind}]"


class SecretFormat(NamedTuple):
    kind: str
    literals: tuple[str, ...]
    """One of these must occur in the text."""
    pattern: str
    """Group 1, if any, is the secret."""
    before: tuple[int, ...] = (0,)
    """Characters before the literal at which the match may start."""
    in_line: str = ""
    """Must precede the literal on its line."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ── names ───────────────────────────────────────────────────────────────────────────────────────

PASSWORDS = _words(
    "password passwd passwort passphrase passcode pass pwd passwrd pw psk secret apikey privatekey secretkey accesskey mnemonic userpwd authtok"
)
"""Parts of a name that always mean a secret."""
PLURALS = {f"{word}s": word for word in ("password", "passphrase", "secret", "credential")}
SECRET_ENDINGS = (
    *_words(
        "password passwd passphrase pwd secret apikey secretkey privatekey accesskey authtoken authkey sharedkey accountkey masterkey pass pw"
    ),
)
"""Endings of a name that always mean a secret, joined to the word before."""
NOT_ENDINGS = _words(
    "bypass surrogatepass compass surpass trespass encompass overpass underpass multipass onepass twopass spw pypass lowpass highpass bandpass"
)
TOKEN_QUALIFIERS = _words(
    "access auth api bearer refresh bot oauth deploy id csrf xsrf session security personal private user app service webhook device push registry authentication authorization verification reset invite admin client secret github gitlab npm slack vault"
)
KEY_QUALIFIERS = _words(
    "server api access account auth app client consumer encryption master private signing secret shared preshared fernet storage subscription hmac aes ssh jwt session cipher crypto deploy service instrumentation webhook admin ingestion license recovery symmetric decryption wallet cookie functions write integration maps"
)
LIKELY = _words(
    "token key auth authorization signature sig jsessionid phpsessid cookie credential credentials creds cred salt jwt bearer sas hmac passkey dsn authtoken apitoken authenticator license login community"
)
"""Names whose value is a secret if it looks like one."""
CUES = tuple(
    b"login|log in|sign in|auth|user|cred|vpn|wifi|wi-fi|wpa|psk|eap|crypt|unlock|obscure|connect|account|identif|admin|root|snmp|tacacs|radius|isakmp|basic|wallet|secure|steam|kinit|smtp|imap|ldap|ftp".split(
        b"|"
    )
)
"""Words on whose line an unmistakable password counts without a name."""
CODES = _words("pin otp totp code passcode mpin cvv")
"""Names of short numbers. `code` needs one of the words before it."""
CODE_QUALIFIERS = _words(
    "verification access security auth backup recovery otp 2fa mfa fa sms login confirmation authentication one-time time pin unlock your"
)
NEUTRAL = _words(
    "value text plain plaintext cleartext b64 base64 hex string str raw data base current new old prod production dev staging live main primary secondary val literal env default"
)
"""Parts that may follow the secret part of a name."""
PLAIN_NAMES = _words("public max min num count total is has tokens per")
"""Parts of names whose value is not a secret."""

PLACEHOLDER = lazy_pattern(
    r"(?i)(?:<|\$|\{|\[redacted|enc\[|op://|vault:|ssm:|arn:|%[({%]).*|%\w+%|%[a-z]|\*+|(.)\1*|x[x-]+|\.{2,}.*|…+|your[a-z_-]*|my[_-]?(?:password|secret|token|key)"
    r"|(?:some|new|old|a|the|test|dummy|fake|sample|example|user|db|admin|current|confirm)?[_-]?(?:password|passwd|passphrase|pass|pwd|secret|token|(?:api|secret|access|private)?[_-]?key|credentials?)"
    r"|change[_-]?(?:me|it|this)|replace[_-]?me|placeholder|dummy|example|sample|redacted|hidden|masked|prompt|none|null|nil|undefined|true|false|yes|no|on|off"
    r"|string|number|object|boolean|integer|bytes|unknown|varchar|required|optional|missing|invalid|incorrect|expired|enabled|disabled|default|encrypted|inherit|include|omit|same-origin|value|text|basic|bearer|anonymous@?|hunter2(?:hunter2)?|foobar"
    r"|(?:self|this|args|config|settings|process\.env|os\.environ)[.\[(].*",
    re.S,
)
"""Placeholders: references to variables, types, and words used in documentation."""

# ── tokens ──────────────────────────────────────────────────────────────────────────────────────

PREFIXES: dict[str, str] = {
    "github-token": "ghp_ gho_ ghu_ ghs_ ghr_", "github-pat": "github_pat_", "gitlab-token": "glpat- gldt- glrt- glptt- glcbt- glsoat-",
    "slack-token": "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxe.xoxp- xoxe.xoxb- xoxd- xapp-", "stripe-key": "sk_live_ sk_test_ rk_live_ rk_test_", "stripe-webhook": "whsec_",
    "google-oauth": "GOCSPX- ya29.", "anthropic-key": "sk-ant-", "openai-key": "sk-proj- sk-svcacct- sk-admin- sk-None-", "openrouter-key": "sk-or-", "huggingface-token": "hf_ api_org_",
    "npm-token": "npm_", "pypi-token": "pypi-", "sendgrid-key": "SG.", "vault-token": "hvs. hvb. hvr.", "age-key": "AGE-SECRET-KEY-1",
    "shopify-token": "shpat_ shpca_ shppa_ shpss_", "digitalocean-token": "dop_v1_ doo_v1_ dor_v1_", "docker-token": "dckr_pat_ dckr_oat_", "supabase-token": "sbp_ sb_secret_",
}  # fmt: skip
"""Prefixes of tokens worth a label. Tokens with other prefixes are found by their randomness."""
IDS = _words(
    "sha1 sha224 sha256 sha384 sha512 md5 h1 build commit git rev id uid uuid msg call toolu tool chatcmpl resp req request run thread asst file batch trace span evt event job task item node chunk main bundle gen fc rs cmpl srvtoolu snapshot image layer img fig build tmp test diff"
)
"""Prefixes of ids, which name a thing and give no access."""
TECHNICAL = lazy_pattern(
    r"(?i)(?:(?:sha|md|utf|base|u?int|float|complex|py|python|oauth|pbkdf|argon|ip|ipv|win|http|aes|rsa|hmac|ascii|latin|cp|x|v|[rheps]s|ed|curve|secp|user|test|item|token|key|password|pass|pw|secret|line|step|page|version|node|level|[a-z])[_-]?v?\d{1,3}|(?:rfc|bpo|issue|iso|pep|gh|cve)[_-]?\d+)[a-z]?"
)
"""Technical terms with a number."""
_FOLLOWERS = (
    "a:bcdgilmnprstuy b:aeilosu c:aehiklortu d:adeiorsu e:acdefglmnprstvwx f:aefioru g:einrs h:aeio i:abcdefglmnoprstvz k:e"
    " l:adeilostuy m:abeiopu n:acdefgiknostv o:bcdlmnoprstuvw p:aeiloprstu q:u r:acdegimnorstuy s:acehilopstu t:acehilorstuy"
    " u:abeilmnprst v:aei w:aei x:t z:e"
)
LETTER_PAIRS = frozenset(row[0] + follower for row in _FOLLOWERS.split() for follower in row[2:])
"""The 200 letter pairs that make up seven eighths of the words in code and documentation."""

# ── what stands behind a name ───────────────────────────────────────────────────────────────────


class ValuePlace(NamedTuple):
    """Place of a value after a secret name. The group with the place's name is the value."""

    name: str
    example: str
    pattern: str


_CODE = r"\s\"'`,;<>{}()\[\]&|\\"
_BARE = rf"[^{_CODE}$][^{_CODE}]"
"""Start of a value without quotes; a dollar sign inside is part of it."""
_QUOTED = r"(?:[^\s\"'`\\&]|&(?!quot;))"
_LINE_END = r"(?:(?:(?:\\|[>|][+-]?)[ \t]{0,4}\r?\n?|\r?\n)[ \t+>]{1,16})?"
"""The value may be on the next line, indented or quoted."""
_AFTER_NAME = r"\\{0,3}[\"'\]]{0,4}[ \t]{0,16}(?:(?:\[[^\]\n]{0,30}\]|\([^)\n]{0,30}\))[ \t]{0,16})?"
"""Closes a name: quotes, a bracket, `[]`, a remark in parentheses."""
_SIGNS = "|".join(
    (
        r":[ \t]{0,4}[&\w<>\[\]|.?]{1,40}[ \t]{0,4}=[ \t]{0,4}(?=[\"'])",  # `: &str = "`
        r"[ \t](?:As[ \t])?\w{1,20}(?:\(\d{1,5}\))?[ \t]{1,4}:?=[ \t]{0,4}(?=N?[\"'])",  # `As String = "`, `VARCHAR2(30) := '`
        rf"(?:=>|:=|->|<-|[=!?+]?={{1,2}}|[—–]|\|\|=?|\?\?=?|::?\*{{0,2}}|\*\*:)[ \t]{{0,16}}(?:</\w{{1,8}}>[ \t]{{0,4}}|[&!][\w-]{{1,20}}[ \t])?{_LINE_END}",
        r"(?<=[\"']),[ \t]{0,16}",  # `"password", "…"`
        r",[ \t]{1,4}(?=\")",
    )
)
ASSIGNED = rf"{_AFTER_NAME}(?:{_SIGNS})"
"""Between a name and its assigned value."""
PAIRED = (
    ValuePlace("paired", "name: password, value: …", r"[\"']?(?:</[\w:.-]{1,30}>|>|:\s{0,4}\{[^{}]{0,120})?[\s,;>]{0,24}(?:/t[ \t]\w{1,20}[ \t]/d[ \t]|<[Vv]alue(?:\s[^<>\n]{0,60})?>|<string>|<td(?:\s[^<>\n]{0,60})?>|[\"'](?:[Vv]alue|VALUE)[\"']\s{0,4}:|\b(?:value:|[Vv]alue[ \t]{0,4}=(?=[ \t]{0,4}\")))\s{0,4}[\"']?(?P<paired>[^\s\"'<>]{4,2000}+)")
)  # fmt: skip
"""Checked first: name and value are two fields of one object."""
ASSIGNED_VALUES: tuple[ValuePlace, ...] = (
    ValuePlace("divided", 'password = "…\\n  …"', rf"[\"'](?P<divided>(?>{_QUOTED}{{3,2000}})\n[ \t]{{0,16}}(?>{_QUOTED}{{3,2000}}))(?=[\"'])"),
    ValuePlace("quoted", 'password = "…"', r"[@bruNfL]{0,2}(?P<quote>\"{3}|'{3}|[\"'`])(?P<quoted>(?>(?:\\[^\s]|(?!(?P=quote))[^\s\\]){4,4000}))(?:(?P=quote)|$)"),
    ValuePlace("escaped", '\\\\"password\\\\": \\\\"…\\\\"', rf"(?:\\{{1,3}}[\"']|&quot;)(?P<escaped>(?>{_QUOTED}{{4,4000}}))(?:\\{{1,3}}[\"']|&quot;|$)"),
    ValuePlace("bare", "password=…", rf"(?P<bare>{_BARE}{{3,4000}}+)(?=[\s\"'`,;&<>#)}}\]]|$)"),
    ValuePlace("phrase", 'password = "… …"', r"[\"'](?P<phrase>[^\"'\n]{8,200})[\"']"),
    ValuePlace("wrapped", 'password = Some("…")', rf"(?:new )?[\w.:!]{{0,40}}[({{\[]\s{{0,24}}[@bruNfL]?[\"'](?P<wrapped>(?>{_QUOTED}{{4,200}}))[\"']\s{{0,24}}[,)}}\].;]"),
    ValuePlace("perl", "password => q{…}", r"q{1,2}[({\[<|](?P<perl>[^\s)}\]>|]{4,200}+)[)}\]>|]"),
)  # fmt: skip
"""Forms of an assigned value; the first match wins."""
OTHER_VALUES: tuple[ValuePlace, ...] = (
    ValuePlace("constructed", 'std::string password{"…"}', rf"(?:\[\w{{0,8}}\])?[ \t]{{0,4}}[({{]\s{{0,4}}[\"'](?P<constructed>(?>{_QUOTED}{{4,200}}))[\"']\s{{0,4}}\}}"),
    ValuePlace("spoken", '--passphrase "… … …"', r"(?:[ \t]{1,2}(?:is|was)?[ \t:]{0,3}|=)[\"'](?P<spoken>[^\s\"']{1,20}(?: [^\s\"']{1,20}){2,11})[\"']"),
    ValuePlace("told", "password `…`", r"[ \t](?:is|was)?[ \t:]{0,3}`(?P<told>[^\s`]{4,200}+)`"),
    ValuePlace("said", "password is …", rf"[ \t](?:is|was|ist|lautet|est|es|è|é|jest|är|este|adalah|with|to|now|—|–|=|->)[ \t:]{{1,3}}[\"']?(?P<said>{_BARE}{{3,200}}+)(?=[\s\"',;)]|$)"),
    ValuePlace("typed", "password for root: …", rf"[ \t](?:\w{{1,12}}[ \t]){{0,2}}(?:for|of)[ \t][^\n]{{1,80}}?(?::|[ \t]is)[ \t]{{1,4}}[\"'`]?(?P<typed>{_BARE}{{5,200}}+)[\"'`.]?[ \t]{{0,4}}$"),
    ValuePlace("passed", 'setPassword("…")', rf"\([bN]?[\"'](?P<passed>(?>{_QUOTED}{{4,200}}))[\"']\)"),
    ValuePlace("default", 'variable "password" { default = "…" }', rf"[\"']?(?:[ \t]{{0,4}}\{{[^{{}}]{{0,300}}?|[^\n{{}}]{{0,80}}?)\bdefault[ \t]{{0,16}}[=:][ \t]{{0,4}}[\"'](?P<default>(?>{_QUOTED}{{4,200}}))[\"']"),
    ValuePlace("entered", 'field("password").type("…")', rf"[\"'\])]{{1,4}}\.\w{{2,20}}\([\"'](?P<entered>(?>{_QUOTED}{{4,200}}))[\"']"),
    ValuePlace("mapped", 'passwords = {{"bob": "…"}}', rf"[ \t]{{0,16}}[=:][ \t]{{0,16}}[\[{{(]{{1,2}}\s{{0,16}}[\"']?[\w@.-]{{1,60}}[\"']?(?:[ \t]{{0,4}}(?:=>|[:,=])[ \t]{{0,4}}|[ \t])[\"'](?P<mapped>(?>{_QUOTED}{{4,200}}))[\"']"),
    ValuePlace("field", 'name="password"\n\n…', r"\"\r?\n\r?\n(?P<field>[^\s\"]{4,2000}+)\r?$"),
    ValuePlace("element", "<password>…</password>", r"[\"']?(?:\s[^<>\n]{0,200})?>\s{0,16}(?:<(?:\w{1,12}:)?[Vv]alue>)?(?:[^\s<>]{1,60}\n[ \t]{0,16})?(?:<!\[CDATA\[)?(?P<element>[^\s<>\]]{4,2000}+)\s{0,16}(?:\]\]>)?</"),
    ValuePlace("cell", "password | … |", r"[ \t`*]{0,16}\|[ \t`*]{0,16}(?P<cell>[^\s|`*]{4,200}+)[ \t`*]{0,16}\|"),
    ValuePlace("literal", "password '…'", rf"[\"']?[ \t]{{1,4}}[\"']{{1,2}}(?P<literal>(?>{_QUOTED}{{4,200}}))[\"']"),
    ValuePlace("flag", "--password …", rf"[ \t]{{1,4}}(?:(?:--\w{{1,12}}|\d|cipher|simple|plain\w{{0,8}})[ \t]{{1,4}})?(?:\d{{1,3}}:[a-z]:|s:)?(?P<flag>[\"']?{_BARE}{{3,2000}}+)(?=[\s\"';&|,.)]|$)"),
    ValuePlace("below", "password:\n…", rf"(?:[ \t][^\n:?]{{0,80}})?[:?]?[ \t]{{0,4}}\r?\n(?:[ \t]{{0,4}}\r?\n)?[ \t]{{0,16}}(?P<below>{_BARE}{{5,200}}+)[ \t]{{0,4}}$"),
)  # fmt: skip
"""Other places after a name; the first match wins."""

# ── places ──────────────────────────────────────────────────────────────────────────────────────

_Q, _USER, _ARGUMENT = "(?:[\"'],[ \\t]{0,4}(?=[\"']))?[\"']?", r"[^\s:,%\"']{1,100}", r"([^\s\"']{4,200})"


class PasswordFlag(NamedTuple):
    """A flag followed by a password, for some programs."""

    flags: str
    programs: str
    """Must precede it on the line; empty: a flag for a user name must."""
    pattern: str


_USER_FLAG = (
    r"(?:^|\s)(?:-[uUlDn]|-xu|--?user(?:name)?|--login|-\w{0,3}uid|/u(?:ser)?:\S{1,60}|/ru)[ =:'\"\s]"
)
PASSWORD_FLAGS: tuple[PasswordFlag, ...] = (
    PasswordFlag("-p", r"sshpass|docker login|podman login|helm registry|security |certutil|mongo|exec |useradd|certutil|cqlsh|ncftp|login", rf"-p[ =]?{_Q}"),
    PasswordFlag("-p|-hp", r"mysql|mariadb|\b7z|\brar\b|\bunrar\b", rf"-h?p{_Q}(?=[^\s\"'-])"),
    PasswordFlag("-P", r"zip\b|sqlcmd|bcp |mosquitto_|ipmitool|tsql|isql", rf"-P ?{_Q}"),
    PasswordFlag("-w|-s", r"\bldap|\bsamba|\bsecurity ", rf"-[ws] ?{_Q}(?!ub|base|one|://|ldap)"),
    PasswordFlag("-a|--pass", r"redis-cli|keydb-cli|valkey-cli", rf"(?:-a|--pass) ?{_Q}"),
    PasswordFlag("-c|-A|-X", r"\bsnmp", rf"-[cAX] ?{_Q}"),
    PasswordFlag("/p:|/pass:|/rp|/p ", r"freerdp|cmdkey|schtasks|mstsc|signtool|net use|msbuild|psexec", rf"/(?:r?p|pass)[: ]{_Q}"),
    PasswordFlag("-pass|-k|-K", r"openssl ", rf"-(?:pass(?:in|out)?|k|K) {_Q}(?:pass:)?"),
    PasswordFlag("--value|--body|-b", r" ssm put-parameter|gh secret set", rf"(?:--value|--body|-b)[ =]?{_Q}"),
    PasswordFlag("-u|--user|--proxy-user", r"curl ", rf"(?:-u|--user|--proxy-user)[ =]?{_Q}{_USER}:"),
    PasswordFlag("-b|--cookie", r"curl ", rf"(?:-b|--cookie) {_Q}[\w.-]{{1,60}}=(?=\S{{12}})"),
    PasswordFlag("-a", r"https? ", rf"-a {_Q}{_USER}:"),
    PasswordFlag("-u", r"lftp ", rf"-u {_Q}{_USER},"),
    PasswordFlag("-U", r"smbclient|winexe|rpcclient|smbmap|wmic|net ads", rf"-U {_Q}{_USER}%"),
    PasswordFlag("-N|-P", r"ssh-keygen ", rf"-[NP] {_Q}"),
    PasswordFlag("-auth|--user", r" ", rf"(?:-auth|--user) {_Q}{_USER}:"),
    PasswordFlag("--encrypt", r"qpdf ", rf"--encrypt {_Q}"),
    PasswordFlag("-p|-P|-w|-xp", "", rf"-(?:xp|[pPw]) {_Q}(?![\d.:/-]{{1,60}}(?:tcp|udp)?(?:\s|$)|\S{{0,200}}[/:]|-)(?=\S{{6}})"),
)  # fmt: skip
"""Flags that take a password. A single letter has other meanings elsewhere, so the program must be on the
line."""
PASSWORD_COMMANDS: tuple[tuple[str, str], ...] = (
    ("rabbitmqctl ", rf"(?:add_user|change_password) \S{{1,60}} {_Q}"),
    ("htpasswd ", rf"(?<=htpasswd )(?:-\w{{1,8}} ){{0,3}}?-\w{{0,8}}b\w{{0,8}} (?:-\w{{1,8}} ){{0,3}}\S{{1,200}} \S{{1,100}} {_Q}"),
    ("htpasswd -n", rf"(?<= -n)(?:\w{{0,8}}b\w{{0,8}}|\w{{0,8}} -b) \S{{1,100}} {_Q}"),
    ("net use ", rf"\\\S{{1,200}} (?:/user:\S{{1,100}} )?(?!/){_Q}"),
    ("net user ", rf"(?<=net user )[^\s/]{{1,60}} (?!/){_Q}"),
    ("sqlplus |expdp |impdp |rman |sqlldr |jdbc:oracle:thin:", r"(?<=[ :])[\"']?[\w$#-]{1,60}/\"?"),
    ("nmcli ", rf"password {_Q}"),
    ("ACL SETUSER |acl setuser ", r"(?<= )>"),
    ("config http-basic.|+login ", rf"(?<=[. ])\S{{1,100}} {_Q}"),
    ("rclone obscure ", rf"(?<= ){_Q}"),
    ("ConvertTo-SecureString ", r"(?:-String )?[\"']"),
)  # fmt: skip
"""Programs, and what precedes a password in their arguments."""


def _commands() -> Iterator[SecretFormat]:
    for flags, programs, given in PASSWORD_FLAGS:
        pattern = rf"(?<=[\s\"']){given}{_ARGUMENT}"
        yield SecretFormat("command-line", tuple(flags.split("|")), pattern, in_line=programs or _USER_FLAG)
    for programs, given in PASSWORD_COMMANDS:
        names = tuple(programs.split("|"))
        start = "|".join(map(re.escape, names))
        end = r"(?=[@\s\"'])" if names[0] == "sqlplus " else ""
        value = r"([^\s\"'@]{4,200})" if end else _ARGUMENT
        yield SecretFormat("command-line", names, rf"(?:{start})(?:[^\n]{{0,299}}? )??{given}{value}{end}")


SECRET_FORMATS: tuple[SecretFormat, ...] = (
    SecretFormat("private-key", ("-----BEGIN ",), r"-----BEGIN (?:(?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----(?>(?:(?!-----)[A-Za-z0-9+/=\s\\:,.>|-]){40,20000})(?:-----END [A-Za-z0-9 ]{0,40}-----)?"),
    SecretFormat("ssh2-key", ("---- BEGIN SSH2",), r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----(?>(?:(?!---- )[\w+/=\s:,.()@\"-]){40,20000})(?:---- END [A-Z0-9 ]{0,40}----)?"),
    SecretFormat("putty-key", ("Private-Lines: ",), r"Private-Lines: \d{1,4}\s{1,4}([A-Za-z0-9+/=]{16,80}(?>(?:\r?\n[ \t]{0,8}[A-Za-z0-9+/=]{4,80}(?=\s|$)){0,400}))"),
    SecretFormat("json-web-key", ('"kty"', "'kty'"), r"(?:[\"']kty[\"'][^{}]{0,4000}?[\"'](?:d|k)[\"']\s{0,3}:\s{0,3}[\"']([\w-]{20,2000}))"),
    SecretFormat("generated-password", ('"random_password"',), r'"random_password"(?:(?!"random_)[^\x00]){0,1200}?"result":\s{0,3}"([^"\n]{4,200})"'),
    SecretFormat("authorization", ("earer ", "EARER "), r"\b[Bb](?:earer|EARER) ([\w.~+/-]{20,2000}=*)", (1,)),
    SecretFormat("authorization-header", ("uthorization", "UTHORIZATION"), r"(?:uthorization|UTHORIZATION)\\?[\"']?\s{0,3}[:=,]?\s{0,3}\\?[\"']?(?:[A-Za-z][\w-]{2,20} )([\w.~+/-]{8,2000}={0,2})(?=[\s\"'\\,;>`)\]}]|$)"),
    SecretFormat("authorization-header", ("uthorization", "UTHORIZATION"), r"(?:uthorization|UTHORIZATION)\\?[\"']?\s{0,3}:\s{0,3}[\w-]{3,20} [^\n]{0,600}?(?:response|[Ss]ignature|mac)=\"?([\w+/=%-]{16,400})"),
    SecretFormat("npmrc", (":_auth", ":_password"), r":_(?:auth(?:Token)?|password)\s{0,3}=\s{0,3}[\"']?([\w.~+/-]{8,400}={0,2})"),
    SecretFormat("docker-auth", ('"auth"',), r"\"auth\"\s{0,3}:\s{0,3}\"([A-Za-z0-9+/]{12,500}={0,2})\""),
    SecretFormat("pgpass", (":543", ":6432:", ":3306:", ":*:"), r":(?:\d{4,5}|\*):[\w*-]{1,60}:[\w.*-]{1,60}:(\S{4,100})(?=\s|$)"),
    SecretFormat("webhook", ("hooks.slack.com/", "/api/webhooks/", "webhookb2/", "hooks.zapier.com/hooks/"), r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/|webhookb2/|hooks\.zapier\.com/hooks/catch/)([\w@/-]{10,300})"),
    SecretFormat("telegram-token", (":AA",), r"(?<!\d)\d{8,10}:AA[\w-]{30,40}(?![\w-])", (8, 9, 10)),
    SecretFormat("masked-value", ("::add-mask::",), r"::add-mask::(\S{4,400})"),
    SecretFormat("ansible-vault", ("$ANSIBLE_VAULT;",), r"\$ANSIBLE_VAULT;[\w.;-]{3,80}\s{1,40}([0-9a-f]{8,200}(?>(?:\s{1,40}[0-9a-f]{8,200}){0,2000}))"),
    SecretFormat("piped-password", ("echo ", "printf "), r"(?:echo|printf) (?:-[neE]{1,3} )?(?:[\"']%s(?:\\n)?[\"'] )?[\"']?(?:[\w.-]{1,60}:)?([^\s\"'|$][^\s\"'|]{3,200}?)(?:\\n)?[\"']?[ \t]{0,4}(?:;[^\n|]{0,120})?\)?[ \t]{0,4}\|[ \t]{0,4}(?:sudo -S\b|(?:sudo )?(?:\w{0,8}passwd|kinit|cryptsetup)\b|[^\n|]{0,200}?(?:-stdin\b|\blogin\b|--with-token|-passphrase-fd|\bsecrets? |\bpass (?:insert|add)|\bsecret-|--pw-stdin|-fd 0|/dev/stdin))"),
    SecretFormat("piped-password", ("-stdin ", "sudo -S ", "passwd ", "login ", "kinit ", "cryptsetup ", "-fd 0 "), r"[\w-]{2,8} [^\n|]{0,100}?<<<[ \t]{0,4}[\"']?([^\s\"'$]{4,200})"),
    SecretFormat("expect", ("assword:", "assphrase:"), r"(?:assword|assphrase):[^\n]{0,40}[\n;][^\n;]{0,20}\bsend(?: --)?(?: -s)? \\?[\"']([^\s\"']{4,200}?)(?:\\{1,2}[rn])?\\?[\"']"),
    SecretFormat("kubernetes-secret", ("kind: Secret",), r"kind: Secret\b(?:\n[^\n]{0,200}){0,20}?\n(?:stringD|d)ata:\n((?:[ \t]{1,16}[\w.-]{1,200}: [^\n]{1,4000}\n?)+)"),
    SecretFormat("kubernetes-data", ("data:\n",), r"data:\n((?:[ \t]{1,16}[\w.-]{1,200}: [^\n]{1,4000}\n)+)(?=(?:[^\n]{0,200}\n){0,30}?kind: Secret\b)"),
    SecretFormat("seed-phrase", ("phrase", "nemonic", "PHRASE", "NEMONIC", "seed", "SEED", "ecovery"), r"(?:phrase|nemonic|PHRASE|NEMONIC|seed|SEED|ecovery)(?: words)?\\?[\"']?[ \t]{0,4}(?:[:=]|is)[ \t]{0,4}\\?[\"']?((?:[a-z]{3,8} ){11}(?:(?:[a-z]{3,8} ){3}){0,4}[a-z]{3,8})(?=\\?[\"'.,;]?(?:\s|[)}\]]|$))"),
    SecretFormat("password-hash", ("$", "{SHA}", "{SSHA}", "{PLAIN}", "{CLEARTEXT}", "pbkdf2_sha"),
           r"(?:\$(?:apr1|\d[a-z]?|y|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]{0,12}|gy|sha1|md5)\$(?:[\w=,./+-]{1,86}\$){0,4}[./\w+]{16,128}|\{S?SHA\}[\w+/]{27,80}={0,2}|\{(?:PLAIN|CLEARTEXT)\}[^\s:]{4,80}|pbkdf2_sha(?:1|256|512)\$\d{1,9}\$[\w+/.-]{1,64}\$[\w+/.]{27,90}={0,2})"),
    SecretFormat("password-hash", (":::",), r"(?<![0-9a-fA-F])[0-9a-fA-F]{32}:[0-9a-fA-F]{32}:::", (65,)),
    SecretFormat("key-in-a-call", ("Fernet(", "KeySpec(", "hmac.new(", "AES.new(", "jwt.encode(", "jwt.sign(", "jwt.verify(", "Hmac(", "crypt(", "password_hash(", "password_verify("),
           r"[\w.]{2,20}\((?:[^()\"'\n]{0,80}(?:\{[^{}\n]{0,200}\}|\"[\w-]{1,20}\"|'[\w-]{1,20}')?[ \t]{0,4},[ \t]{0,4})?b?[\"']([^\s\"']{12,200})[\"']"),
    SecretFormat("key-in-a-call", ("hash(", "::make(", "hashpw(", "Wallet("), r"[\w:]{2,8}\(b?[\"']([^\s\"']{6,200})[\"']", in_line=r"(?i)pwd|passw|crypt|\bHash$|\bHash:|Wallet?$|\bW$"),
    SecretFormat("login-call", ("ogin(", "uth(", "auth=(", "onnect(", "onnection(", "PDO(", "redential(", "redentials(", "uthenticate(", "uthentication(", "_user(", "superuser(", "WiFi.begin(", "river("),
           r"[\w.]{2,12}=?\((?:[^()\"'\n]{0,80},[ \t]{0,4})?(?:[\"'][\w.@:/;=-]{0,80}[\"'][ \t]{0,4},[ \t]{0,4}){1,2}(?:[a-z]{2,12}=\(?|Some\()?(?:[\"'][\w.@-]{0,40}[\"'][ \t]{0,4},[ \t]{0,4})?[\"']([^\s\"']{6,200})[\"']", (0,)),
    SecretFormat("login-call", ("mysqli(", "mysqli_connect(", "mysql_connect("), r"\w{6,14}\((?:[^(),\n]{1,80},){2}[ \t]{0,4}[\"']([^\s\"']{4,200})[\"']"),
    SecretFormat("login", ("creds", "redentials", "ogin", "og in ", "ign in ", "USERPWD", "auth ", "user="), r"(?:creds|redentials|ogin|og in|ign in|USERPWD|auth|user)(?: (?:are|is|with|as|using))?[ \t]{0,2}[:=,]?[ \t]{0,4}[\"'`]?[\w.@+-]{1,60}[\"'`]?[ \t]?[:/][ \t]?[\"'`]?([^\s\"'`,;/:()<>{}\[\]]{6,100})(?=[\s\"'`.,;)]|$)"),
    SecretFormat("login", ("AUTH ", "PASS ", "LOGIN ", "IDENTIFY "), r"(?:AUTH(?: [A-Z][A-Z\d-]{3,20}| \w{1,20}(?= \S))?|PASS|LOGIN \S{1,80}|IDENTIFY(?: \S{1,40})?) [\"']?([^\s\"']{6,400})[\"']?(?=\s|\Z)"),
    SecretFormat("login", (" p: ", " p=", " pw ", " pass ", " p "), r" p(?:w|ass)?(?:[:=] ?| )[\"'`]?([^\s\"'`,;)]{6,100})", in_line=r"(?i)\bu(?:ser)?[:= ] ?\S{1,60}[\s,;/] ?"),
    SecretFormat("login", (" USING ", " using "), r"(?<= )(?:using|USING) [\"']?([^\s\"';]{6,100})"),
    SecretFormat("login", ("user ",), r"user [\w.@-]{1,60} ([^\s\"']{6,100})(?=\s{0,4}(?:\n|\Z))", in_line=r"^\s*u$"),
    SecretFormat("assignment", ("PSK ", "EAP ", "XAUTH ", "community "), r"(?:(?:PSK|EAP|XAUTH) [\"']|community )([^\s\"']{4,200})", in_line=r":\s{1,4}[PEX]$|\bsnmp-server\s"),
    SecretFormat("assignment", ("WIFI:",), r"WIFI:[^\n]{0,200}?;P:([^;\n]{4,100});"),
    SecretFormat("assignment", ("user ",), r"user \S{1,60} (?:on|off) [^\n]{0,200}?>(\S{4,200})"),
    SecretFormat("assignment", ("IDENTIFIED ", "identified ", "Identified "), r"(?i:identified (?:with \S{1,60} )?(?:by|as)(?: password)? )[\"']?([^\s\"';]{4,200})", in_line=r"(?i)\b(?:user|grant|role|login)\b"),
    SecretFormat("url-token", ("reset", "verif", "confirm", "invit", "magic", "unlock"), r"(?:reset|verif|confirm|invit|magic|unlock)[\w-]{0,20}[/=]([\w-]{20,200})(?![\w/.-])"),
    SecretFormat("wifi-key", ("Key Content", "Schl\u00fcsselinhalt"), r"(?:Key Content|Schl\u00fcsselinhalt)[ \t]{0,20}: ([^\s\"'`<>]{8,63})"),
    SecretFormat("url-token", ("://",), r"://([\w-]{20,200})(?::[^\s:/@\"'<>`]{0,200})?@[\w.\[-]"),
    SecretFormat("url-credentials", ("://",), r"://[^\s:/@\"'<>`]{0,100}:([^\s:/\"'<>`]{3,200})@[\w.\[{$-]"),
    *_commands(),
)  # fmt: skip
"""Secrets recognised by their surroundings."""
TOKEN_SHAPES: dict[str, str] = {
    "aws-access-key": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", "google-api-key": r"AIza[\w-]{35}", "jwt": r"eyJ[\w-]{10,2000}\.[\w-]{10,4000}(?:\.[\w-]{10,4000}){1,3}",
    "openai-key": r"sk-(?!ant-|or-)(?=[A-Za-z]{0,47}\d)[A-Za-z0-9]{32,100}", "twilio-key": r"(?:SK|AC)[0-9a-f]{32}", "databricks-token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "discord-token": r"[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}", "azure-client-secret": r"[\w.~-]{3}\dQ~[\w.~-]{31,34}", "google-refresh-token": r"1//0[\w-]{40,200}",
    "mailchimp-key": r"[0-9a-f]{32}-us\d{1,2}", "asana-token": r"[12]/\d{13,20}(?:/\d{13,20})?:[0-9a-f]{32}", "amazon-mws-token": r"amzn\.mws\.[0-9a-f-]{36}",
    "extended-key": r"[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{90,115}",
}  # fmt: skip
"""Tokens of a fixed shape."""
