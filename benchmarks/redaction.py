"""How many secrets redaction finds, and how often it mistakes code for one (R17).

`TUNED` are the kinds the patterns were written against (the second half of them was held back at first, and found
85 % then); `HELD` are kinds of the same categories that were written down when the patterns were done: after they
were measured only rules against false hits were tightened, so theirs is the honest figure. The corpus of
code is the standard library and whatever is installed beside it.

    python -m benchmarks redaction
"""

from __future__ import annotations

import base64
import json
import random
import string
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from refold.text.redact import redact

VALUES = 20
LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
ALNUM, HEX, WORD, B64 = (
    LOWER + UPPER + DIGITS,
    "0123456789abcdef",
    LOWER + UPPER + DIGITS + "_-",
    LOWER + UPPER + DIGITS + "+/",
)
Maker = Callable[[random.Random], str]


def some(alphabet: str, least: int, most: int | None = None) -> Maker:
    """So many characters of an alphabet. A value of a few letters only would be a word: it is drawn again."""

    def make(rng: random.Random) -> str:
        while True:
            made = "".join(rng.choice(alphabet) for _ in range(rng.randint(least, most or least)))
            if len(set(made)) > 4:
                return made

    return make


def password(rng: random.Random) -> str:
    """What a generator or a careful person makes: both cases, digits, often a sign."""
    length = rng.randint(8, 14)
    made = [rng.choice(LOWER), rng.choice(UPPER), *(rng.choice(DIGITS) for _ in range(2))]
    made += [rng.choice(ALNUM + ("!#*^~+." if rng.random() < 0.5 else "")) for _ in range(length - 4)]
    rng.shuffle(made)
    return "".join(made).strip(".") or "aB3dE9xQ"


def encoded(maker: Maker) -> Maker:
    return lambda rng: base64.b64encode(maker(rng).encode()).decode()


def jwt(rng: random.Random) -> str:
    def piece(value: str) -> str:
        return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")

    claims = piece(json.dumps({"sub": some(DIGITS, 10)(rng), "name": some(LOWER, 8)(rng)}))
    return f"{piece(json.dumps({'alg': 'HS256', 'typ': 'JWT'}))}.{claims}.{some(WORD, 43)(rng)}"


def lines(count: int, alphabet: str = B64) -> Maker:
    return lambda rng: "\n".join(some(alphabet, 64)(rng) for _ in range(count))


class Kind(NamedTuple):
    """`text` is what surrounds it, `{}` is the secret."""

    name: str
    text: str
    secret: Maker


token, short_token = some(ALNUM, 32, 40), some(ALNUM, 20, 24)

FIRST: dict[str, tuple[Kind, ...]] = {
    "vendor tokens": (
        Kind("aws access key", "aws_access_key_id={}", lambda r: "AKIA" + some(UPPER + "234567", 16)(r)),
        Kind("aws secret key", "aws_secret_access_key = {}", some(B64, 40)),
        Kind("github token", "remote: {} accepted", lambda r: "ghp_" + some(ALNUM, 36)(r)),
        Kind("gitlab token", "export T={}", lambda r: "glpat-" + some(WORD, 20)(r)),
        Kind("slack token", "using {} now", lambda r: f"xoxb-{some(DIGITS, 12)(r)}-{some(DIGITS, 12)(r)}-{some(ALNUM, 24)(r)}"),
        Kind("stripe key", "Stripe({!r})".replace("!r", ""), lambda r: "sk_live_" + some(ALNUM, 24)(r)),
        Kind("google api key", "?key={}&q=1", lambda r: "AIza" + some(ALNUM, 35)(r)),
        Kind("openai key", "OPENAI: {}", lambda r: "sk-proj-" + some(ALNUM, 48)(r)),
        Kind("anthropic key", "x-api-key: {}", lambda r: "sk-ant-api03-" + some(ALNUM, 95)(r)),
        Kind("npm token", "//registry.npmjs.org/:_authToken={}", lambda r: "npm_" + some(ALNUM, 36)(r)),
        Kind("pypi token", "password = {}", lambda r: "pypi-AgEIcHlwaS5vcmc" + some(WORD, 120)(r)),
        Kind("sendgrid key", "{}", lambda r: f"SG.{some(WORD, 22)(r)}.{some(WORD, 43)(r)}"),
        Kind("telegram token", "https://api.telegram.org/bot{}/getMe", lambda r: f"1{some(DIGITS, 9)(r)}:AA{some(WORD, 33)(r)}"),
        Kind("digitalocean token", "doctl -t {}", lambda r: "dop_v1_" + some(HEX, 64)(r)),
        Kind("vault token", "VAULT_TOKEN={}", lambda r: "hvs." + some(WORD, 90)(r)),
        Kind("huggingface token", "login({})", lambda r: "hf_" + some(LOWER + UPPER, 34)(r)),
        Kind("jwt", "session {} ok", jwt),
        Kind("docker token", "docker login -u me -p {}", lambda r: "dckr_pat_" + some(WORD, 27)(r)),
    ),
    "assignments": (
        Kind("env password", "DB_PASSWORD={}", password),
        Kind("Pwd in a connection string", "Server=db1;Database=app;Uid=sa;Pwd={};Encrypt=yes", password),
        Kind("yaml password", "database:\n  password: {}\n  pool: 5", password),
        Kind("json secret", '{{"client_id": "app", "client_secret": "{}"}}', token),
        Kind("python literal", 'SECRET_KEY = "{}"', short_token),
        Kind("random 20 to 24", "api_token = {}", short_token),
        Kind("toml token", '[auth]\ntoken = "{}"', short_token),
        Kind("ini passwd", "[client]\nuser=root\npasswd={}", password),
        Kind("javascript object", "const cfg = {{ apiKey: '{}', debug: true }}", token),
        Kind("java properties", "spring.datasource.password={}", password),
        Kind("terraform", 'password          = "{}"', password),
        Kind("export in a shell", "export MYSQL_PWD='{}'", password),
    ),
    "command lines": (
        Kind("--password X", "tool login --user me --password {} --quiet", password),
        Kind("--password=X", "pg_dump --password={} app", password),
        Kind("curl -u", "curl -u admin:{} https://api.example.org/v1", password),
        Kind("mysql -p", "mysql -u root -p{} app", password),
        Kind("--token X", "cli deploy --token {} --prod", token),
        Kind("sshpass", "sshpass -p {} ssh me@host", password),
    ),
    "headers": (
        Kind("bearer", "Authorization: Bearer {}", token),
        Kind("basic", "Authorization: Basic {}", encoded(lambda r: "admin:" + password(r))),
        Kind("x-api-key", "X-Api-Key: {}", token),
        Kind("cookie", "Cookie: theme=dark; sessionid={}; lang=en", token),
        Kind("set-cookie", "Set-Cookie: auth_token={}; HttpOnly; Path=/", token),
        Kind("curl -H", 'curl -H "Authorization: token {}" https://api.example.org', token),
    ),
    "addresses": (
        Kind("postgres", "postgres://app:{}@db.internal:5432/app", password),
        Kind("redis without a user", "redis://:{}@cache:6379/0", password),
        Kind("mongodb", "mongodb+srv://svc:{}@cluster0.mongodb.net/x", password),
        Kind("https with a user", "https://deploy:{}@git.example.org/x.git", token),
        Kind("sas sig", "https://a.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig={}", lambda r: some(ALNUM, 43)(r) + "%3D"),
        Kind("token in a query", "GET /v1/users?access_token={}&page=2", token),
        Kind("slack webhook", "https://hooks.slack.com/services/{}", lambda r: f"T{some(UPPER + DIGITS, 8)(r)}/B{some(UPPER + DIGITS, 8)(r)}/{some(ALNUM, 24)(r)}"),
    ),
    "files": (
        Kind("netrc", "machine api.example.org\n  login me\n  password {}", password),
        Kind("netrc on one line", "machine api.example.org login me password {}", password),
        Kind("docker auth", '{{"auths": {{"index.docker.io": {{"auth": "{}"}}}}}}', encoded(lambda r: "me:" + password(r))),
        Kind("pgpass", "db.internal:5432:app:svc:{}", password),
        Kind("maven xml", "<server><id>x</id><username>me</username><password>{}</password></server>", password),
        Kind("web.config", '<add key="ApiSecret" value="{}" />', token),
        Kind("kubernetes secret", "kind: Secret\ndata:\n  password: {}", encoded(password)),
        Kind("rsa key", "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", lines(12)),
        Kind("openssh key", "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", lines(7)),
        Kind("key in json", '"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"', some(B64, 400)),
    ),
    "surroundings": (
        Kind("after a colour", "token: \x1b[32m{}\x1b[0m", lambda r: "ghp_" + some(ALNUM, 36)(r)),
        Kind("assignment after a colour", "password=\x1b[1;31m{}\x1b[0m", password),
        Kind("markdown", "The password is `{}`.", password),
    ),
}  # fmt: skip
SECOND: dict[str, tuple[Kind, ...]] = {
    "vendor tokens": (
        Kind("github fine-grained", "git clone https://x-access-token:{}@github.com/a/b", lambda r: f"github_pat_{some(ALNUM, 22)(r)}_{some(ALNUM, 59)(r)}"),
        Kind("twilio key", "Client({})", lambda r: "SK" + some(HEX, 32)(r)),
        Kind("google oauth secret", "secret {}", lambda r: "GOCSPX-" + some(WORD, 28)(r)),
        Kind("databricks token", "token {}", lambda r: "dapi" + some(HEX, 32)(r)),
        Kind("shopify token", "X-Shopify-Access-Token: {}", lambda r: "shpat_" + some(HEX, 32)(r)),
        Kind("groq key", "GROQ {}", lambda r: "gsk_" + some(ALNUM, 52)(r)),
        Kind("linear key", "linear({})", lambda r: "lin_api_" + some(ALNUM, 40)(r)),
    ),
    "assignments": (
        Kind("dotenv with export", "export API_SECRET={}", short_token),
        Kind("go literal", 'dbPassword := "{}"', password),
        Kind("ruby hash", ":password => '{}',", password),
        Kind("php define", "define('DB_PASSWORD', '{}');", password),
        Kind("docker compose", "      - POSTGRES_PASSWORD={}", password),
        Kind("ansible", "ansible_become_pass: {}", password),
        Kind("odbc", "DRIVER={{SQL Server}};SERVER=x;UID=sa;PWD={}", password),
        Kind("json password", '{{"user": "me", "password": "{}"}}', password),
        Kind("credential in csharp", 'var credential = "{}";', token),
    ),
    "command lines": (
        Kind("--api-key X", "tool --api-key {} run", token),
        Kind("wget", "wget --http-user=me --http-password={} https://x.example.org", password),
        Kind("curl --user", "curl --user me:{} https://x.example.org", password),
        Kind("docker -p", "docker login -u me -p {} registry.example.org", password),
        Kind("redis-cli -a", "redis-cli -h cache -a {} ping", password),
    ),
    "headers": (
        Kind("private-token", "PRIVATE-TOKEN: {}", short_token),
        Kind("proxy authorization", "Proxy-Authorization: Basic {}", encoded(lambda r: "u:" + password(r))),
        Kind("python headers", "headers = {{'Authorization': 'Bearer {}'}}", token),
        Kind("session cookie", "cookie: JSESSIONID={}; a=b", some(UPPER + DIGITS, 32)),
    ),
    "addresses": (
        Kind("amqp", "amqp://svc:{}@mq.internal:5672/", password),
        Kind("mysql with a driver", "mysql+pymysql://root:{}@127.0.0.1/app", password),
        Kind("ftp", "ftp://me:{}@files.example.org/", password),
        Kind("presigned s3", "https://b.s3.amazonaws.com/k?X-Amz-Signature={}&X-Amz-Expires=60", some(HEX, 64)),
        Kind("discord webhook", "https://discord.com/api/webhooks/{}", lambda r: f"{some(DIGITS, 18)(r)}/{some(WORD, 68)(r)}"),
        Kind("azure account key", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};", lambda r: some(B64, 86)(r) + "=="),
    ),
    "files": (
        Kind("npmrc _auth", "_auth={}", encoded(lambda r: "me:" + password(r))),
        Kind("gradle", "signing.password={}", password),
        Kind("xml attribute", '<connection user="me" password="{}"/>', password),
        Kind("nuget", '<add key="ClearTextPassword" value="{}" />', password),
        Kind("ec key", "-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----", lines(3)),
        Kind("pgp key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", lines(20)),
        Kind("git credentials", "https://me:{}@git.example.org", password),
        Kind("wpa", 'network={{\n ssid="home"\n psk="{}"\n}}', password),
    ),
    "surroundings": (
        Kind("xml token after a colour", "\x1b[36m<token>\x1b[0m{}</token>", short_token),
        Kind("escaped json", '{{\\"password\\": \\"{}\\"}}', password),
        Kind("html entity", "password=&quot;{}&quot;", password),
    ),
}  # fmt: skip


TUNED = {name: (*FIRST[name], *SECOND[name]) for name in FIRST}
HELD: dict[str, tuple[Kind, ...]] = {
    "vendor tokens": (
        Kind("gitlab runner token", "runner: {}", lambda r: "glrt-" + some(WORD, 20)(r)),
        Kind("slack app token", "app {}", lambda r: f"xapp-1-A{some(UPPER + DIGITS, 10)(r)}-{some(DIGITS, 13)(r)}-{some(HEX, 64)(r)}"),
        Kind("replicate token", "run({})", lambda r: "r8_" + some(ALNUM, 37)(r)),
        Kind("figma token", "figma {}", lambda r: "figd_" + some(WORD, 40)(r)),
        Kind("cloudflare key by name", "CLOUDFLARE_API_TOKEN={}", some(WORD, 40)),
        Kind("datadog key by name", "DD_API_KEY={}", some(HEX, 32)),
        Kind("atlassian token", "jira {}", lambda r: "ATATT3xFfGF0" + some(WORD, 170)(r)),
    ),
    "assignments": (
        Kind("rust literal", 'let api_key = "{}";', token),
        Kind("csharp property", 'Password = "{}",', password),
        Kind("kotlin", 'val storePassword = "{}"', password),
        Kind("powershell", '$env:DB_PASSWORD = "{}"', password),
        Kind("dockerfile", "ENV SECRET_TOKEN {}", token),
        Kind("github actions", "          NPM_TOKEN: {}", token),
        Kind("spring yaml", "      client-secret: {}", token),
        Kind("elixir", 'secret_key_base: "{}"', some(B64, 64)),
        Kind("keyword argument", 'connect(host="db", user="app", password="{}")', password),
    ),
    "command lines": (
        Kind("--secret=X", "vault-cli --secret={} write", token),
        Kind("--client-secret X", "az login --client-secret {} --tenant t", token),
        Kind("quoted flag", 'helm install --set-string x --password "{}"', password),
        Kind("env before a command", "PGPASSWORD={} psql -h db app", password),
    ),
    "headers": (
        Kind("x-auth-token", "X-Auth-Token: {}", token),
        Kind("fetch", 'headers: {{ "x-api-key": "{}" }}', token),
        Kind("laravel cookie", "Set-Cookie: laravel_session={}; path=/; httponly", some(ALNUM, 40)),
    ),
    "addresses": (
        Kind("smtp", "smtp://mailer:{}@mail.example.org:587", password),
        Kind("clickhouse", "clickhouse://default:{}@ch:9000/db", password),
        Kind("jdbc", "jdbc:postgresql://db/app?user=svc&password={}", password),
        Kind("api key in a query", "https://api.example.org/v1?api_key={}&x=1", token),
    ),
    "files": (
        Kind("pip.conf", "index-url = https://me:{}@pypi.example.org/simple", password),
        Kind("aws credentials", "[default]\naws_access_key_id = x\naws_secret_access_key = {}", some(B64, 40)),
        Kind("tomcat users", '<user username="admin" password="{}" roles="x"/>', password),
        Kind("pkcs8 encrypted", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY-----", lines(10)),
        Kind("kubeconfig", "users:\n- user:\n    token: {}", jwt),
        Kind("rails yaml", "production:\n  secret_key_base: {}", some(HEX, 128)),
    ),
    "surroundings": (
        Kind("bold in a terminal", "API key: \x1b[1m{}\x1b[22m", lambda r: "sk_live_" + some(ALNUM, 24)(r)),
        Kind("diff", "+DB_PASSWORD={}", password),
        Kind("log line", '2024-05-01 12:00:01 INFO config loaded {{password={}, retries=3}}', password),
    ),
}  # fmt: skip


def plain_password(r: random.Random) -> str:
    """As people choose them: eight or twelve characters, a phrase, or a word with something around it."""
    word = r.choice(("test", "your", "123456", "secret", "Summer", "example"))
    number = str(r.randint(10, 99))
    return r.choice(
        (
            some(ALNUM, 8)(r),
            some(ALNUM, 12)(r),
            some(ALNUM + "!#%+_-", 10)(r),
            f"{word}-{number}-{some(LOWER, 6)(r)}",
            f"{some(LOWER, 6)(r)}{word}{number}",
            f"{r.choice(('correct', 'purple', 'quiet'))}-{r.choice(('horse', 'engine', 'river'))}-{number}",
        )
    )


STANDING: tuple[Kind, ...] = (
    Kind("dotenv", "DB_HOST=db\nDB_PASSWORD={}\nDB_PORT=5432", plain_password),
    Kind("dotenv, quoted", "APP_SECRET='{}'", plain_password),
    Kind("htpasswd -b", "htpasswd -b .htpasswd alice {}", plain_password),
    Kind("htpasswd -bc", "htpasswd -cbB /etc/nginx/users bob {}", plain_password),
    Kind("ldapsearch -w", "ldapsearch -x -D cn=admin,dc=x -w {} -b dc=x", plain_password),
    Kind("ldapmodify -w", "ldapmodify -H ldap://h -D cn=m -w '{}' -f a.ldif", plain_password),
    Kind("psexec -p", "psexec \\\\srv01 -u corp\\admin -p {} cmd", plain_password),
    Kind("winexe -U", "winexe -U corp/admin%{} //10.0.0.5 cmd", plain_password),
    Kind("7z -p", "7z a -p{} backup.7z data/", plain_password),
    Kind("rar -hp", "rar a -hp{} backup.rar data", plain_password),
    Kind("fernet key in a call", 'box = Fernet(b"{}")', lambda r: some(WORD, 43)(r) + "="),
    Kind("fernet key by name", "FERNET_KEY={}", lambda r: some(WORD, 43)(r) + "="),
    Kind("sqlcmd -P", "sqlcmd -S db1 -U sa -P {} -Q 'SELECT 1'", plain_password),
    Kind("bcp -P", "bcp app.dbo.t out t.dat -S db1 -U sa -P {} -c", plain_password),
    Kind("pscp -pw", "pscp -pw {} a.txt me@host:/tmp", plain_password),
    Kind("plink -pw", "plink -ssh me@host -pw {} uptime", plain_password),
    Kind("mosquitto_pub -P", "mosquitto_pub -h mq -u iot -P {} -t a -m b", plain_password),
    Kind("mosquitto_sub -P", "mosquitto_sub -h mq -u iot -P '{}' -t '#'", plain_password),
    Kind("ipmitool -P", "ipmitool -I lanplus -H bmc -U root -P {} power status", plain_password),
    Kind("cqlsh -p", "cqlsh 10.0.0.3 -u cassandra -p {}", plain_password),
    Kind("unzip -P", "unzip -P {} archive.zip", plain_password),
    Kind("zip -P, quoted", 'zip -r -P "{}" out.zip src', plain_password),
    Kind("xfreerdp /p:", "xfreerdp /v:srv /u:admin /p:{} /cert:ignore", plain_password),
    Kind("net user", "net user backup {} /add", plain_password),
    Kind("kubectl --from-literal", "kubectl create secret generic db --from-literal=password={}", plain_password),
    Kind("heroku config:set", "heroku config:set JWT_SECRET={} -a app", plain_password),
    Kind("docker -e", "docker run -e MYSQL_ROOT_PASSWORD={} mysql:8", plain_password),
    Kind("podman --env", "podman run --env POSTGRES_PASSWORD={} -d postgres", plain_password),
    Kind("inline variable", "PGPASSWORD='{}' pg_dump app > a.sql", plain_password),
    Kind("redis-cli inline", "REDISCLI_AUTH_PASSWORD={} redis-cli ping", plain_password),
    Kind("compose mapping", "environment:\n  MYSQL_PASSWORD: {}\n  TZ: UTC", plain_password),
    Kind("helm values", "postgresql:\n  auth:\n    postgresPassword: {}", plain_password),
    Kind("yaml, quoted", 'admin:\n  password: "{}"', plain_password),
    Kind("toml", '[database]\npassword = "{}"', plain_password),
    Kind("json", '{{"username": "svc", "password": "{}"}}', plain_password),
    Kind("json, camel case", '{{"dbPassword":"{}","port":1}}', plain_password),
    Kind("php array", "'password' => '{}',", plain_password),
    Kind("ruby keyword", 'connect(user: "x", password: "{}")', plain_password),
    Kind("java properties", "db.password={}", plain_password),
    Kind("spring properties", "spring.mail.password={}", plain_password),
    Kind("jdbc query", "jdbc:mysql://db/app?user=svc&password={}", plain_password),
    Kind("ado connection string", "Server=db;User Id=sa;Password={};TrustServerCertificate=True", plain_password),
    Kind("postgres address", "postgresql://svc:{}@db.internal/app", plain_password),
    Kind("amqp address", "amqp://svc:{}@mq:5672/vhost", plain_password),
    Kind("proxy address", "http_proxy=http://me:{}@proxy.corp:3128", plain_password),
    Kind("git remote", "git remote add o https://ci:{}@git.corp/x.git", plain_password),
    Kind("curl -u", "curl -u admin:{} https://x.corp/api", plain_password),
    Kind("curl --user=", "curl --user='ci:{}' -O https://x.corp/a", plain_password),
    Kind("--password", "mytool --user me --password {} sync", plain_password),
    Kind("--password=", "mysqladmin --user=root --password={} status", plain_password),
    Kind("--passphrase", "gpg --batch --passphrase {} -d a.gpg", plain_password),
    Kind("-storepass", "jarsigner -storepass {} a.jar k", plain_password),
    Kind("mysql -p", "mysql -h db -u root -p{} app", plain_password),
    Kind("mysqldump -p", "mysqldump -u root -p'{}' app", plain_password),
    Kind("sshpass -p", "sshpass -p '{}' scp a h:", plain_password),
    Kind("docker login -p", "docker login -u ci -p {} reg.corp", plain_password),
    Kind("sql", "ALTER USER app WITH PASSWORD '{}';", plain_password),
    Kind("mysql sql", "CREATE USER 'a'@'%' IDENTIFIED BY '{}';", plain_password),
    Kind("xml element", "<dbPassword>{}</dbPassword>", plain_password),
    Kind("xml attribute", '<datasource user="a" password="{}"/>', plain_password),
    Kind("netrc", "machine x.corp login me password {}", plain_password),
    Kind("pgpass", "db.corp:5432:*:svc:{}", plain_password),
    Kind("powershell", '$password = "{}"', plain_password),
    Kind("terraform", 'admin_password = "{}"', plain_password),
    Kind("said", "The admin password is {}", plain_password),
    Kind("said in backticks", "password: `{}`", plain_password),
    Kind("table", "| password | {} |", plain_password),
    Kind("table in bold", "| **Password** | `{}` |", plain_password),
)  # fmt: skip
"""Places where a secret stands, written before the patterns; every second one is held back. Blind, 94 % of those
were found (38 % before); 99 % after changes for the first half and for other tests. The author of the patterns wrote
the list too, so the later figure is not blind."""
STANDING_TUNED, STANDING_HELD = {"places": STANDING[::2]}, {"places": STANDING[1::2]}


WORDS = ("apple", "anchor", "basket", "bridge", "candle", "copper", "dragon", "ember", "falcon", "garden", "harbor", "island", "kettle", "meadow")  # fmt: skip


def human_password(r: random.Random) -> str:
    """A word and a year, two words and a number, or letters at random: whatever signs are allowed nearly everywhere."""
    one, two, number = r.choice(WORDS), r.choice(WORDS), r.randint(10, 99)
    made = (f"{one.title()}20{number}!", f"{one}-{two}-{number}", f"{one.title()}{two.title()}{number}", f"{one}_{number}", f"{one[0].upper()}{one[1:]}#{number}{two[:2]}", some(ALNUM, 10)(r), f"{number}{one}{two[:3].upper()}")  # fmt: skip
    return r.choice(made)


def maker(name: str) -> Maker:
    """What stands for a value in `held_secrets.tsv`: `an32` are 32 letters and digits, `b64_24` 24 bytes in base64."""
    if name.startswith("b64_"):
        return lambda r: base64.b64encode(r.randbytes(int(name[4:]))).decode()
    kind, size = name.rstrip(DIGITS), int(name[len(name.rstrip(DIGITS)) :] or 0)
    alphabets = {"an": ALNUM, "hex": HEX, "low": LOWER + DIGITS, "up": UPPER + DIGITS, "u": WORD}
    others: dict[str, Maker] = {
        "b": some(UPPER + "234567", 32), "pin": some(DIGITS, 6), "otp": some(DIGITS, 6), "jwt": jwt, "pw": plain_password, "pwa": some(ALNUM, 8, 14),
        "weak": lambda r: r.choice(WORDS) + r.choice(WORDS), "hum": human_password, "words": lambda r: " ".join(r.choices(WORDS, k=4)) + " 42",
        "sgn": lambda r: some(ALNUM, 6)(r) + "".join(r.choices("@,;&:!<>()=", k=3)) + some(ALNUM, 5)(r), "bip": lambda r: " ".join(r.choices(WORDS, k=size)), "lines": lines(6),
        "linesi": lambda r: lines(4)(r).replace("\n", "\n    "), "uuid": lambda r: "-".join("".join(r.choices(HEX, k=n)) for n in (8, 4, 4, 4, 12)),
    }  # fmt: skip
    return some(alphabets[kind], size) if kind in alphabets else others[kind]


def held_list(name: str) -> dict[str, tuple[Kind, ...]]:
    """Kinds that were written down before anybody looked at how they would be found. List A: 93.5 % of its kinds were
    found blind (77.8 % by the patterns by name that were there before), list C, of an author who meant harm: 79.2 %
    (53.2 %). Three more were written by the author of the changes that followed each: D before the patterns were
    read 87.7 %, E (passwords as people choose them, with spaces and signs) 81.1 %, F (the same passwords in other places)
    89.9 %. G and H were written by an author who saw neither patterns nor lists: 93.9 % and, after the misses of G were
    mended, 91.4 %. I is another such list, of what occurs most in sessions: 97.6 %. Misses of all were read afterwards, so later figures are not blind."""
    rows = (Path(__file__).parent / "held_secrets.tsv").read_text("utf-8").splitlines()
    cells = [row.split("\t") for row in rows]
    kinds = [
        Kind(
            what,
            text.encode().decode("unicode_escape").encode("latin-1").decode() if text.isascii() else text,
            maker(value),
        )
        for of, value, what, text in cells
        if of == name
    ]
    return {name: tuple(kinds)}


def planted(kind: Kind, number: int) -> tuple[str, str]:
    """(text, secret), the same every time."""
    secret = kind.secret(random.Random(f"{kind.name}/{number}"))
    return kind.text.replace("{S}", secret) if "{S}" in kind.text else kind.text.format(secret), secret


def leaked(clean: str, secret: str) -> bool:
    """Is any telling part of the secret still there?"""
    least = min(len(secret), 8)
    return any(secret[at : at + least] in clean for at in range(len(secret) - least + 1))


def found(kind: Kind, values: int = VALUES) -> int:
    texts = (planted(kind, number) for number in range(values))
    return sum(not leaked(redact(f"before\n{text}\nafter")[0], secret) for text, secret in texts)


def recall(kinds: dict[str, tuple[Kind, ...]], values: int = VALUES) -> dict[str, float]:
    """Share of secrets that are gone, by category and in all."""
    shares = {name: [found(kind, values) / values for kind in rows] for name, rows in kinds.items()}
    every = [share for rows in shares.values() for share in rows]
    return {
        **{name: round(sum(rows) / len(rows), 4) for name, rows in shares.items()},
        "all": round(sum(every) / len(every), 4),
    }


def code() -> Iterator[Path]:
    for name in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_path(name)).rglob("*.py")):
            # Tests of detectors are full of what they detect.
            if not {"detect_secrets", "test", "tests"} & set(path.parts):
                yield path


def false_hits(files: Iterable[Path], most: int | None = None) -> tuple[int, list[str]]:
    """Lines that were read, and what was taken for a secret in them."""
    read, hits = 0, list[str]()
    for path in files:
        text = path.read_text("utf-8", "replace")
        read += text.count("\n")
        hits += [
            f"{path.name}: {f.kind}: {text[max(f.start - 40, 0) : f.end][:160]!r}" for f in redact(text)[1]
        ]
        if most is not None and read >= most:
            break
    return read, hits


def run(*, quick: bool = False) -> dict[str, Any]:
    read, hits = false_hits(islice(code(), 0, None, 2), 50_000 if quick else 1_500_000)
    values = 4 if quick else VALUES
    return {
        "kinds": {"tuned": sum(map(len, TUNED.values())), "held": sum(map(len, HELD.values()))},
        "values": values,
        "tuned": recall(TUNED, values),
        "held": recall(HELD, values),
        "lists": {name: recall(held_list(name), values)["all"] for name in "ACDEFGHI"},
        "code": {"lines": read, "false_hits": len(hits)},
    }
