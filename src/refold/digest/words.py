"""Words: what a sentence says, reduced to comparable tokens. English stems, Chinese pairs, code names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

LONGEST = 64
"""Longer runs of word characters (keys, base64) are compared by their first characters only."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+", re.UNICODE)
CJK = re.compile(rf"[{_CJK}]")

_ENDINGS = ("ing", "ies", "ed", "es", "s", "ly")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Cut the commonest English ending, where at least three letters stay."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def words(text: str) -> list[str]:
    """The words of `text` in order: stems of alphabetic words, pairs of Chinese characters."""
    found: list[str] = []
    for raw in WORD.findall(text.lower()):
        if raw[0] >= "\u3040" and CJK.match(raw):
            found.extend(pairs(raw[: LONGEST * 16]))
        else:
            found.append(stem(raw[:LONGEST]))
    return found


def pairs(run: str) -> Iterable[str]:
    """Overlapping pairs of a run of Chinese characters: its words, near enough, without a dictionary."""
    return (run[i : i + 2] for i in range(max(1, len(run) - 1)))


def is_number(word: str) -> bool:
    return word[0].isdigit()


_FUNCTION = """
a an the of to in on at is are was were am be been being do does did has have had having and or for with
by from as it its it's they them their theirs he him his she her hers i me my mine we us our ours you your
yours that this these those there here so than then too very just also will would shall should can could
may might must about into onto over up out off down if but because while when where which who whom whose
what how why all any some each every both such own same s t m d ve re ll im id ive youre thats
"""
_COMMON = """
really actually basically literally definitely totally absolutely certainly probably maybe perhaps pretty
quite rather kinda sorta bit lot lots much many more most little big great good nice cool awesome amazing
wonderful fantastic incredible lovely beautiful super fun happy glad excited exciting awesome perfect best
better bad well fine okay ok sure yes yeah yep yup no nope oh ah hey hi hello wow haha lol thanks thank
please sorry welcome congrats congratulations bye goodbye know think guess feel feeling felt mean means
meant say says said tell tells told talk talking see seeing saw seen look looks looking looked hear
hearing heard sound sounds want wants wanted need needs needed like likes liked love loves loved enjoy
hope hoping hopes wish wishes try trying tried get gets getting got gotten go goes going went gone come
comes coming came make makes making made take takes taking took taken give gives giving gave given keep
keeps keeping kept let lets put find finding found use uses using used way ways thing things something
anything everything nothing someone anyone everyone people time times day days today now new back always
ever never still even again already yet soon lately recently around away together lot kind sort stuff part
life world real right true important special able forward proud work help support share sharing bring
brings start started one two first last next other another different long while since until whole such
through
"""
FUNCTION = frozenset(stem(word) for word in _FUNCTION.split())
COMMON = frozenset(stem(word) for word in _COMMON.split()) - FUNCTION
"""Frequent in any English conversation: they carry less than their rarity in one conversation suggests."""
