"""Where secrets stand: a value in such a place is one, whatever it looks like.

Half of the places were written down before the patterns were looked at; the values are what people choose, words
included.
"""

from __future__ import annotations

import pytest

from refold.text.redact import redact
from refold.text.redaction.secrets import ASSIGNED_VALUES, OTHER_VALUES, PAIRED, ValuePlace

PLACES = r"""
SSHPASS={} sshpass -e ssh root@10.2.3.4
mysqldump --user=root --password={} shop > d.sql
helm registry login reg.example.org --username bob --password {}
keytool -list -keystore ks.jks -storepass {}
svn co --username bob --password {} https://svn.example.org/x
mount -t cifs //srv/s /mnt -o username=bob,password={},uid=1000
vault kv put secret/app db_password={}
helm upgrade a b --set auth.password={}
h1 ansible_user=root ansible_ssh_pass={}
/user add name=bob password={} group=full
2026-01-01 DEBUG login user=bob password={} ok=1
psql "host=db user=app password={} dbname=x"
aws configure set aws_secret_access_key {}
npm config set //registry.example.org/:_authToken {}
set -gx OPENAI_API_KEY {}
setenv DB_PASSWORD {}
ENV POSTGRES_PASSWORD {}
ARG NPM_TOKEN={}
nmcli dev wifi connect Home password {}
az login --service-principal -u 1b2c -p {} --tenant t
ncftpput -u bob -p {} host dir file
net use Z: \\srv\share {} /user:bob
echo {} | docker login -u bob --password-stdin registry.example.org
echo 'root:{}' | chpasswd
echo '{}' | sudo -S apt update
expect -c 'spawn su; expect Password:; send "{}"'
machine git.example.org login bob password {}
[database]\nuser = app\npasswd = {}
[security]\n; the first user\nadmin_password = {}
db:\n  user: app\n  password: {}
x-api-key: {}
curl -H 'X-Api-Key: {}' https://x.example
**Password:** {}\nuser: bob
my password: {}
Password for bob: {}
Enter passphrase for key '/root/.ssh/id': {}
SMTP_PASSWORD = {}
variable "db_password" {{\n  type = string\n  default = "{}"\n}}
define('DB_PASSWORD', '{}');
props.setProperty("db.password", "{}");
os.Setenv("API_TOKEN", "{}")
ds.setPassword("{}");
SET PASSWORD FOR 'bob'@'%' = PASSWORD('{}');
private readonly apiSecret = '{}';
val apiKey: String = "{}"
password: str = "{}"
DB = f"postgresql://app:{}@{{host}}/db"
$pw = ConvertTo-SecureString '{}' -AsPlainText -Force
Content-Disposition: form-data; name="password"\r\n\r\n{}\r
kind: Secret\nmetadata:\n  name: x\ndata:\n  tls.key: {}
data:\n  tls.key: {}\nkind: Secret
| user | password |\n|---|---|\n| bob | {} |
 name | password \n------+----------\n bob  | {}
user,password\nbob,{}
user\tdb_password\tnote\nbob\t{}\tx"""
"""One place a line; `\\n`, `\\t` and `\\r` are those characters."""


def places() -> list[str]:
    lines = PLACES.strip().splitlines()
    return [line.replace(r"\n", "\n").replace(r"\t", "\t").replace(r"\r", "\r") for line in lines]


@pytest.mark.parametrize("value", ["Rocket42$", "harbormonkey"])
@pytest.mark.parametrize("place", places())
def test_a_value_where_a_secret_stands_is_one(place: str, value: str) -> None:
    clean, _ = redact(f"I ran this:\n{place.format(value)}\nand went on.\n")
    assert value not in clean


@pytest.mark.parametrize(
    "text",
    ["password: hashed_password", "    password: str\n    token: bytes\n", "use --password option here", "user, password = pair", "f(user=a,password=value)",
     "password = default_password", "Passwort: eingeben", "the username and password quoting.", "_REMOTE = ('api_key', 'base_url')",
     "docker run -u 1000 -p 8080:80 nginx", "python -u tool.py -p 8000", "cp -u a.txt -p b/c.txt", "set password again please", "def f(a,\n      password=default\n)",
     "name,password\n", "get_secret('database')", "| password | string | required |", "echo hello | grep stdin"],
)  # fmt: skip
def test_code_and_prose_about_secrets_stay(text: str) -> None:
    assert redact(text) == (text, [])


@pytest.mark.parametrize("value", ["Zq7Rk2pLw9Xv4Tn8", "Rocket42$"])
def test_a_value_that_is_a_secret_once_is_one_wherever_it_stands(value: str) -> None:
    clean, _ = redact(f"The value {value} does not work.\nDB_PASSWORD={value}\nI tried {value}, twice.")
    assert value not in clean
    assert "does not work" in clean and "twice" in clean


def test_a_word_that_is_a_password_once_stays_a_word() -> None:
    clean, _ = redact("DB_PASSWORD=deployment\nThe deployment failed.")
    assert clean == "DB_PASSWORD=[redacted:assignment]\nThe deployment failed."


@pytest.mark.parametrize("place", (PAIRED, *ASSIGNED_VALUES, *OTHER_VALUES), ids=lambda place: place.name)
def test_the_example_of_each_place_in_the_table_is_one(place: ValuePlace) -> None:
    assert "aB3xY9qL7w" not in redact(f"before\n{place.example.replace('…', 'aB3xY9qL7w')}\nafter")[0]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('DB_PASSWORD="it\'s,a;B3&<x>"', "it's,a;B3&<x>"),
        ("db.password=xyT9Lc,;:SaQGD", "xyT9Lc,;:SaQGD"),
        ('password = "old-One-11" -> "new-Two-22"', "new-Two-22"),
        ('{"name": "password", "value": "kettle-ember-42"}', "kettle-ember-42"),
        ("subprocess.run(['mysqldump', '-uroot', '-pkettle42', 'app'])", "kettle42"),
        ('user, password = "bob", "kettle_42"', "kettle_42"),
        ('password = Some("kettle-ember-42")', "kettle-ember-42"),
        ("PASSWORD = (\n    'kettle-ember-42'\n)", "kettle-ember-42"),
        ('${ADMIN_PASSWORD:-kettle-ember-42}', "kettle-ember-42"),
        ('BORG_PASSPHRASE="kettle ember falcon 42"', "kettle ember falcon 42"),
        ("steamcmd +login bob aB3xY9qL7w +quit", "aB3xY9qL7w"),
        ("sqlplus -s 'app/\"kettle42\"@orcl'", "kettle42"),
        ("page.fill('input[name=\"password\"]', 'kettle_42')", "kettle_42"),
    ],
)  # fmt: skip
def test_values_are_hidden_whole_wherever_they_stand(text: str, secret: str) -> None:
    assert secret not in redact(text)[0]


@pytest.mark.parametrize(
    "text",
    ["client.create(\n    password=password,\n    client_token=client_token,\n)", 'exec.Command("claude", "-p", applyPrompt, "x")',
     "item identified by `key` in the dict", "an obscure case", "text.encode('utf-16', 'surrogatepass').decode('utf-16')",
     "the root of the function [Ridders1979]_", "login (RFC 7617#section-2)", "see aws/aws-cli#847 for credentials",
     "jsonnet_token = r'[^\\W\\d]\\w*'", "r'request-pass|request-text|request-list'", "except KeyError:\n    pass\nvalue = next(rows)",
     "private_key: Ed25519PrivateKey | None", 'userpass += f":{password}"', "users of v2.17.0* or `0x52464C44`"],
)  # fmt: skip
def test_code_and_prose_beside_such_words_are_left_alone(text: str) -> None:
    assert redact(text) == (text, [])
