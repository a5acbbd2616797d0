"""The dense form of a sentence: what a model needs to understand it, and no more.

Names, numbers, negations, code and the verbs stay; articles, pronouns of the speaker, copulas, fillers,
interjections and forms of address go. A reading model
answers as well from this as from whole sentences.
"""

from __future__ import annotations

import re

_DROPPED = """
a an the of to in on at is are was were am be been being do does did has have had having and for with by
as it its they them their theirs he him his she her hers i me my mine we us our ours you your yours that
this these those there so too very just also would will about into onto which who whom i'm i've i'd i'll
it's that's there's you're you've you'd you'll we're we've we'd we'll they're they've they'd they'll he's
she's he'd she'd he'll she'll what's who's here's let's how's where's really actually basically literally
definitely totally absolutely certainly pretty quite rather kinda sorta bit super oh ah hey hi hello wow
haha lol yeah yep yup well okay ok thanks thank please btw anyway honestly
"""
_DROP = frozenset(_DROPPED.split())
_BARE = frozenset(word.replace("'", "") for word in _DROP if "'" in word) - {
    "its",
    "well",
    "shell",
    "hell",
    "wed",
    "id",
    "ill",
    "were",
}
_EDGE = ',.;:!?()"“”…~'
_TOKEN = re.compile(r"\S+")
_CODE = re.compile(r"[`_/\\={}<>$#@|]|\w\.\w|\w\(")
_MARKS = str.maketrans({"’": "'", "‘": "'"})
_CHINESE_FILLERS = re.compile(r"[呢吧啊呀哦嗯啦嘛]+(?=[，。！？；,.!?]|$)|(?:其实|真的|就是说|的话)")


def dense(sentence: str, forms_of_address: frozenset[str] = frozenset()) -> str:
    """`sentence` without what carries no fact. `forms_of_address`: lower-case names of those present,
    dropped only where set off by punctuation ("Thanks, Maria!")."""
    if _CODE.search(sentence):
        return sentence
    sentence = _CHINESE_FILLERS.sub("", sentence.translate(_MARKS))
    kept: list[str] = []
    tokens = _TOKEN.findall(sentence)
    for position, token in enumerate(tokens):
        core = token.strip(_EDGE)
        low = core.lower()
        if not core or low in _DROP or low in _BARE:
            if kept and token[-1:] in ";:," and kept[-1][-1:] not in ",;:.":
                kept[-1] += ","
            continue
        if low in forms_of_address and _is_address(tokens, position):
            continue
        kept.append(_trimmed(token, core))
    return " ".join(kept).strip(" ,;:.!?")


def _is_address(tokens: list[str], position: int) -> bool:
    token = tokens[position]
    closed = token[-1:] in ",.!?" or position + 1 == len(tokens)
    opened = (
        position == 0
        or tokens[position - 1][-1:] in ",!."
        or tokens[position - 1].lower() in ("hey", "hi", "thanks", "wow", "bye")
    )
    return closed and opened


def _trimmed(token: str, core: str) -> str:
    """The word, a comma after it kept (lists need it), other marks dropped except quotes and `?`."""
    end = token[-1:]
    if token[0] in '"“' or end in '"”':
        return token.rstrip(".!")
    if end in ",;:?":
        return core + ("," if end != "?" else "?")
    return core
