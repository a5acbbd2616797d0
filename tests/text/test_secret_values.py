"""Which values are secrets, at the edge of each rule: one character more or less and the answer is the other one."""

from __future__ import annotations

import pytest

from refold.text.redact import redact
from refold.text.redaction.values import entropy

RANDOM = "aB3xY9qL7wZk2mP5"
SHORT = "aB3xY9qL7w"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
NPM = "npm_" + "Z9y8X7w6V5u4T3s2R1" * 2
PEM = "-----{} RSA PRIVATE KEY-----"
SSH2 = "---- {} SSH2 ENCRYPTED PRIVATE KEY ----"
BODY = "aB3xY9qL7wZk2mP5EXAMPLE+" * 3


@pytest.mark.parametrize(
    ("around", "value", "secret"),
    [
        # Letters and digits in a mix: a cookie is a secret where its value is that, whatever its name.
        ("Cookie: sid={}", "a1b2c3d4a1b2c3d4", True),  # three bits for each character
        ("Cookie: sid={}", "a1b2c3d4a1b2c3d3", False),
        ("Cookie: sid={}", "qWrTyPs1qWrTyPs1", True),  # the same, with two digits
        ("Cookie: sid={}", "qWrTyPsGqWrTyPsG1", False),  # with one there must be more
        ("Cookie: sid={}", "qWrTyPsGiJkLmNoP1", True),
        ("Cookie: sid={}", "a1!b2#c3^d4+e5~f6?g7", True),  # seven of ten are letters or digits
        ("Cookie: sid={}", "a1!b2#c3^d4+e5~f6?!7", False),
        ("Cookie: sid={}", "1234#5678#9012#34", False),
        ("Cookie: sid={}", "deploy_worker_name_2x", False),  # a name
        ("Cookie: sid={}", "deploy-worker-name-2x", False),
        ("Cookie: sid={}", "deployworkername2x", False),
        ("Cookie: sid={}", "deploy-worker-no1234", True),  # a fifth of it digits: no name
        ("Cookie: sid={}", "deploy-worker-nos1234", False),
        ("Cookie: sid={}", "KQWXYZMNP1a2BcDe", True),  # no word has such letters beside each other
        ("Cookie: sid={}", "TERMINATOR1a2BcDe", False),
        ("Cookie: sid={}", "terminator1A2bCdE", False),
        ("Cookie: sid={}", "KQWXYZM1a2BcDeFg", True),
        ("Cookie: sid={}", "KQWXYZMNP1a2BcD3", True),
        ("Cookie: sid={}", "AB_CD_EF_GH_IJ12", False),  # a constant
        ("Cookie: sid={}", "AB_CD_EF_GH_I1234", True),
        ("Cookie: sid={}", "ab_cd_ef_gh_ij12", False),
        ("Cookie: sid={}", "ab1.c2d3.e4f5.g6", False),  # a dotted name
        ("Cookie: sid={}", "qWrTyPsGiJkLmNoB", True),  # letters alone, where their case changes all the time
        ("Cookie: sid={}", "qWrTyPsG-iJkLmNoB", False),
        ("Cookie: sid={}", "qwRtypSghjKlmnOb", True),
        ("Cookie: sid={}", "qwRtypSghjKlmnob", False),
        ("Cookie: sid={}", "qwrtypsghjklmnob", False),
        ("Cookie: sid={}", "QWRTYPSGHJKLMNOB", False),
        ("Cookie: sid={}", ".a1b2c3d4e5f6g7h", True),  # the beginning of a path or an address is none
        ("Cookie: sid={}", "./a1b2c3d4e5f6g7", False),
        ("Cookie: sid={}", "/a1b2c3d4e5f6g7h", False),
        ("Cookie: sid={}", "htta1b2c3d4e5f6g7", True),
        ("Cookie: sid={}", "httpa1b2c3d4e5f6", False),
        ("Cookie: sid={}", "-a1b2c3d4e5f6g7h", True),
        ("Cookie: sid={}", "--a1b2c3d4e5f6g7", False),
        ("Cookie: sid={}", "@a1b2c3d4e5f6g7h", False),
        # Short values: only behind a flag is that all there is to ask.
        ("--password {}", ".a1B2c3", True),
        ("--password {}", "./a1B2c3", False),
        ("--password {}", "htta1B2c3", True),
        ("--password {}", "http1B2c3", False),
        ("--password {}", "-a1B2c3", True),
        ("--password {}", "--a1B2c3", False),
        ("--password {}", "A1B2C3", True),
        ("--password {}", "98765432", True),
        ("--password {}", "a1a1b2bC", True),  # two and a quarter bits for each of eight characters
        ("--password {}", "a1a1b1bC", True),
        ("--password {}", "qwrtyps1", True),
        ("--password {}", "abc1def", True),  # two changes of kind
        ("--password {}", "qwrtyps1hijklmn", True),  # one for five characters
        ("--password {}", "qwrtyps1hiJklmn", True),
        ("--password {}", "qwRtYpSg", True),  # three changes of case
        ("--password {}", "qwRtYpsg", True),
        ("--password {}", "QwrTypSg", True),  # as words begin
        ("--password {}", "qwrtypsg", False),
        ("--password {}", "QWRTYPSG", False),
        # Without quotes a short value must be no name.
        ("password={}", "abcd1e2f", True),
        ("password={}", "abcde1f2", True),
        ("password={}", "98765432", True),
        ("password={}", "WorkerNam1a2b3c", True),
        ("password={}", "WorkerName1a2b3c", True),  # from sixteen characters on it is judged as a long one
        ("password={}", "a1!#b2#^c3^+d4+~", True),
        ("password={}", SHORT, True),
        # A name that does not say it is a secret needs a long value that is no name itself.
        ("token_type = '{}'", "aB3xY9qL7wZk2mP", False),
        ("token_type = '{}'", RANDOM, True),
        ("token_type = '{}'", "WorkerName1a2b3c", False),
        ("token_type is {}", RANDOM, False),
        ("token_type '{}'", RANDOM, False),
        ("token_type: {}", RANDOM, True),
        # Where it stands.
        ("password {}", SHORT, True),  # a word after a word, without a flag
        ("password {}", "deployment", False),
        ("logic: password {}", SHORT, True),
        ("login me password {}", SHORT, True),
        (f"login {'x' * 113} password {{}}", SHORT, True),
        ("arn:aws:secretsmanager:us:1:secret:{}", RANDOM, False),
        ("x:password='{}'", SHORT, True),
        ("see x:y password={}", SHORT, True),
        ("--password '{} x", SHORT, True),
        ('--password "{} x', SHORT, True),
        ("password={}.", SHORT, True),
        ("password={}:", SHORT, True),
        ("the password is {}.", SHORT, True),
        ("password = '{}'", f"{SHORT}.", True),
        ("password=password={}", SHORT, True),
        ("pass_file={}", RANDOM, False),
        # Cookies.
        ("cookie: sid={}", RANDOM, True),
        ("Set-Cookie: sid={}; Path=/", RANDOM, True),
        ("cookies are good. Cookie: a=b; sid={}", RANDOM, True),
        ("mycookie: sid={}", RANDOM, False),
        ('{{"Cookie": "sid={}"}}', RANDOM, True),
        # Addresses and commands.
        ("https://me:{}@x.org", "deployment", True),
        ("https://{}@x.org", "deployment-worker-name-2x", False),
        ("https://{}@x.org", "aB3xY9qL7wZk2mP5aB3x", True),
        ("curl -u me:{} https://x.org", "deployment", True),
        ("curl -u me:{} https://x.org", "9876-5432", True),
        ("curl -u me:{} https://x.org", "abc1def", True),
        ("curl -u me:{} https://x.org", "changeme99", True),
        ("db:5432:app:svc:{}", "changeme", False),
        ("db:5432:app:svc:{}", "deployment", True),
        ("db:5432:app:svc:{}", "9876-5432", True),
        # Formats: a picture of a key is none.
        ("see {} there", "ghp_a1B2c3D4e5EXAMPLEa1B2c3D4e5a1B2c3D4e", False),
        ("see {} there", "ghp_a1B2c3D4e5EXAMPLxa1B2c3D4e5a1B2c3D4e", True),
        ("see {} there", "ghp_aaaaaaaaaaaaaaaaaaaE" + "ABCD" * 4, False),
        ("see {} there", "ghp_aaaaaaaaaaaaaaaaaaaE" + "ABCD" * 3 + "ABCE", True),
        ("{}", f"{PEM.format('BEGIN')}\n{BODY}\n{PEM.format('END')}", True),
        ("{}", f"{SSH2.format('BEGIN')}\n{BODY}\n{SSH2.format('END')}", True),
        ("Private-Lines: 1\n{}\nPrivate-MAC: 00", BODY, True),
        ("https://hooks.zapier.com/hooks/catch/{} x", "1111111/1111111", True),
    ],
)  # fmt: skip
def test_a_value_is_a_secret_or_not(around: str, value: str, secret: bool) -> None:
    text = around.format(value)
    clean, findings = redact(text)
    assert [text[found.start : found.end] for found in findings] == [value] * secret
    assert clean == (around.format(findings[0].mark) if secret else text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"{GITHUB[:8]}\n{GITHUB[8:]} x", "[redacted:github-token] x"),
        (f" {GITHUB[:12]}\n{GITHUB[12:]} x", " [redacted:github-token] x"),
        (f"\n{GITHUB[:12]}\n{GITHUB[12:]} x", "\n[redacted:github-token] x"),
        (f"see key:{GITHUB[:36]}\n{GITHUB[36:]} x", "see key:[redacted:github-token] x"),
        (f"see {NPM[:20]}\n    {NPM[20:]} x", "see [redacted:npm-token] x"),
        (
            f"{GITHUB} and {NPM[:20]}\n{NPM[20:]} and {GITHUB}",
            "[redacted:github-token] and [redacted:npm-token] and [redacted:github-token]",
        ),
        # The first line is a secret by itself: what follows it is none.
        (
            f"{GITHUB} and sk_live_a1B2c3D4e5F6\nwords follow",
            "[redacted:github-token] and [redacted:stripe-key]\nwords follow",
        ),
        (f"{GITHUB[:12]} and\n{GITHUB[12:]}", f"{GITHUB[:12]} and\n{GITHUB[12:]}"),
    ],
)
def test_a_token_in_two_lines_is_replaced_from_its_beginning_to_its_end(text: str, clean: str) -> None:
    assert redact(text)[0] == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        # Two lines in another spelling, and places in each of them.
        (
            f"Привет\nпароль: {SHORT} и\nplain {GITHUB} line\n密码是{SHORT}。谢谢\nend",
            "Привет\nпароль: [redacted:assignment] и\nplain [redacted:github-token] line\n密码是[redacted:assignment]。谢谢\nend",
        ),
        (
            f"a%3Db password%3D{SHORT}%26x\npassword&#61;{SHORT} y\n",
            "a%3Db password%3D[redacted:assignment]%26x\npassword&#61;[redacted:assignment] y\n",
        ),
        (f"é\nq=1%3D2 password%3D{SHORT}", "é\nq=1%3D2 password%3D[redacted:assignment]"),
        (f"mot de passe = {SHORT} oui", "mot de passe = [redacted:assignment] oui"),
        (f"“password” = «{SHORT}» x", "“password” = «[redacted:assignment]» x"),
        (f"密码、密碼：{SHORT}", "密码、密碼：[redacted:assignment]"),
        (f"口令＝「{SHORT}」", "口令＝「[redacted:assignment]」"),
        (f"pа\u200bssword: {SHORT}", "pа\u200bssword: [redacted:assignment]"),
        (f"{GITHUB[:9]}\u200b{GITHUB[9:]}.", "[redacted:github-token]."),
        (f"x ｐｗ=\u200b{SHORT}", "x ｐｗ=\u200b[redacted:assignment]"),
        # A colour is no letter of the word beside it.
        (f"é key\x1b[31m{GITHUB}\x1b[0mend", "é key\x1b[31m[redacted:github-token]\x1b[0mend"),
    ],
)  # fmt: skip
def test_what_is_written_otherwise_is_replaced_in_its_place(text: str, clean: str) -> None:
    assert redact(text)[0] == clean


@pytest.mark.parametrize(("text", "bits"), [("a", 0), ("ab", 1), ("aabb", 1), ("abcd", 2), ("aabc", 1.5)])
def test_entropy_is_in_bits_for_each_character(text: str, bits: float) -> None:
    assert entropy(text) == bits
