"""The dense form of a sentence: what a model needs to understand it, and no more.

Names, numbers, negations, tenses that matter, code and all other words stay; articles, the speaker's own
pronouns, copulas, fillers, interjections and forms of address go. A reading model answers as well from this
as from whole sentences.
"""

from __future__ import annotations

import re

from refold.text.patterns import lazy_pattern

_DROPPED = """
a an the of to in on at by as is are was were am be do does did has have had having and it its i
me my mine we us our ours you your yours that this these those there so too very just also which who whom i'm
i've it's that's there's you're you've we're we've what's who's here's let's how's where's im ive youre thats
really actually basically literally definitely totally absolutely certainly pretty quite rather kinda sorta
bit super oh ah hey hi hello wow haha lol yeah yep yup well okay ok thanks thank please btw anyway honestly
"""
_DROP = frozenset(_DROPPED.split())
_WILL = {"'ll": "will", "'d": "would"}
_SELF = ("i", "we", "you", "it", "that", "there")
_SHORTENED = {person + ending: full for person in _SELF for ending, full in _WILL.items()}
"""Contractions of dropped pronouns whose verb is the tense."""

_EDGE = ',.;:!?()"“”…~'
_TOKEN = re.compile(r"\S+")
_CODE = re.compile(r"[`_/\\={}<>#@|]|\$[A-Za-z_{(]|[A-Za-z]\.[A-Za-z]|\w\(")
_MARKS = str.maketrans({"’": "'", "‘": "'"})
_CHINESE_FILLERS = lazy_pattern(
    r"(?<![呢吧啊呀哦嗯啦嘛])[呢吧啊呀哦嗯啦嘛]++(?=[，。！？；,.!?]|$)|(?:其实|真的|就是说|的话)"
)
_GREETINGS = ("hey", "hi", "hello", "thanks", "wow", "bye", "congrats")


def dense(sentence: str, forms_of_address: frozenset[str] = frozenset()) -> str:
    """`sentence` without what carries no fact; code as it is. `forms_of_address`: lower-case names of those
    present, dropped only where set off by punctuation ("Thanks, Maria!")."""
    if _CODE.search(sentence):
        return sentence
    kept: list[str] = []
    tokens = _TOKEN.findall(_CHINESE_FILLERS.sub("", sentence.translate(_MARKS)))
    for position, token in enumerate(tokens):
        core = token.strip(_EDGE)
        low = core.lower()
        if not core or (low in _DROP and _is_plain(core, position)):
            if kept and token[-1] in ";:," and kept[-1][-1] not in ",;:.":
                kept[-1] += ","
        elif low in _SHORTENED and _is_plain(core, position):
            kept.append(_SHORTENED[low])
        elif low not in forms_of_address or not _is_address(tokens, position):
            kept.append(_trimmed(token, core))
    return " ".join(kept).strip(" ,;:.!?")


def _is_plain(core: str, position: int) -> bool:
    """Not a name that looks like a small word: "US", "IT", the "A" of a title."""
    return core.islower() or core[:2] in ("I", "I'") or (position == 0 and core == core.capitalize())


def _is_address(tokens: list[str], position: int) -> bool:
    closed = tokens[position][-1] in ",.!?" or position + 1 == len(tokens)
    before = tokens[position - 1] if position else ","
    return closed and (before[-1] in ",!." or before.lower() in _GREETINGS)


def _trimmed(token: str, core: str) -> str:
    """The word with a comma after it where there was a stop (lists need it); quotes and `?` stay."""
    inner = token.rstrip(".!?,;:")
    stop = "?" if "?" in token[len(inner) :] else "," if token[-1] in ",;:" else ""
    quoted = inner and (inner[0] in '"“' or inner[-1] in '"”')
    return (inner if quoted else core) + stop
