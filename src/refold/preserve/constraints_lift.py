"""When a later sentence takes an earlier constraint back."""
# ruff: noqa: E501 (rows of a table: one cue a row reads better than wrapped patterns)

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import msgspec

from refold.preserve.constraints_text import Sort
from refold.preserve.lazy import lazy

_LIFTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:you|we|it)(?:'re| are|'s)?\s+(?:can|may|could|(?:are |is )?(?:now )?(?:allowed|free|permitted|welcome) to)\s+(?:now\s+|actually\s+|again\s+|safely\s+|go ahead and\s+|also\s+)?(?P<topic>[^.?!]{2,160}?)\s*(?:\b(?:now|again|after all|from now on|anyway|going forward|if you (?:want|need|like)|at will|freely)\b|$)",
        r"\b(?:now|actually|ok|okay|alright)\b[,:]?\s+(?:you|we) (?:can|may)\s+(?P<topic>[^.?!]{2,160})",
        r"\b(?:forget|ignore|disregard|drop|scrap|cancel|retract|withdraw|take back|undo|discard|lift|relax|remove|revoke)\s+(?:about\s+)?(?:what|everything|all|anything|the thing|that|my|the|our|any|those)\b(?P<topic>[^.?!]{0,160})",
        r"\bnever ?mind\b(?: (?:what i said )?about| the)?(?P<topic>[^.?!]{2,120})",
        r"\b(?:it'?s|it is|that'?s|is|are|was|be) (?:now |actually |perfectly |totally |also |completely )?(?:ok|okay|fine|allowed|acceptable|alright|all right|possible|permitted) (?:now )?(?:to|for you to|if you|with me (?:to|if you))\s+(?P<topic>[^.?!]{2,160})",
        r"\b(?:you|we|i) (?:no longer|don't|do not) (?:need|have|want)(?: you)? to (?P<topic>[^.?!]{2,140})\b(?:any ?more|any longer|now)|\b(?:you|we) no longer (?:need|have) to (?P<topic2>[^.?!]{2,140})",
        r"\b(?:don't|doesn't|do not|does not) (?:need|have) to (?P<topic>[^.?!]{2,140}?)\s+(?:any ?more|any longer)\b|\bno longer (?:needs?|ha(?:s|ve)) to (?P<topic2>[^.?!]{2,140})",
        r"\bfeel free to (?P<topic>[^.?!]{2,160})|\bgo ahead (?:and|with) (?P<topic2>[^.?!]{2,160})",
        r"\bi(?:'ve| have)? changed my mind(?: about| on| regarding)?(?P<topic>[^.?!]{2,140})",
        r"\bstop (?:worrying|caring) about (?P<topic>[^.?!]{2,120})|\bdon't worry about (?P<topic2>[^.?!]{2,120}?) (?:any ?more|any longer|now)\b",
    )
)
_LIFTED = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:is|are) (?:now |actually |perfectly |totally )?(?:ok|okay|fine|allowed|permitted|acceptable|in scope|fair game|unlocked|unfrozen|lifted|over|gone|obsolete|moot|void)(?: (?:now|again|after all|too|with me))?\s*[.!]?$",
        r"\b(?:no longer|not any ?more|isn't|aren't|doesn't|don't)\s+(?:appl(?:y|ies)|(?:a |an )?(?:rule|requirement|restriction|constraint|issue|concern)|off[- ]limits|forbidden|prohibited|required|mandatory|needed|necessary|hold|matters?|count)\b",
    )
)
"""Said of a subject: what stands before it is the topic."""
_LIFTS_ZH = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<topic>[^，。？！,]{2,40}?)(?:现在|已经|目前|这次)?(?:也|都|又)?(?<!不)可以(?:随便|再|重新)?[\u4e00-\u9fff]{1,4}了",
        r"(?:现在|这次|这回|目前|已经|接下来|其实|好了|行了|从现在(?:起|开始))?[，,]?\s*(?:你|我们|您)?(?<!不)(?<!才)(?<!只)(?<!是)(?<!都)(?:可以|允许|准许|同意)(?!不|否|吗|只)(?P<topic>[^，。？！吗]{1,60}?)了[。！!，,\s]*",
        r"(?:现在|这次|这回|从现在(?:起|开始)|其实)[，,]?\s*(?:你|我们|您)?也?(?:可以|允许|准许|同意)(?!不|只)(?P<topic>[^，。？！吗]{1,60})",
        r"(?:不用|不必|无需|不需要|不再需要|不再要求|不再|不要求|不用管)(?:再|继续)?(?P<topic>[^，。？！吗]{1,60}?)了[。！!，,\s]*",
        r"(?P<topic>[^。？！吗]{2,60}?)(?:的)?(?:限制|要求|规定|约束|禁令|规则|说法|条件)?(?:不算(?:数)?了?|作废了?|取消了?|解除了?|不再适用|不再有效|失效了?|可以忽略|没有了)[。！!，,\s]*$",
        r"(?:忘掉|忘了|忘记|忽略|无视|别管|不用管|取消|撤销|撤回|收回|解除|放开|作废|去掉)(?:掉|了)?(?!了|了。)(?P<topic>[^。？！吗]{1,80})",
        r"(?:不再|已经不)(?:禁止|限制|要求|是?必须)(?P<topic>[^，。？！吗]{1,60})",
        r"(?:随便|随意|尽管|放心)(?P<topic>[^，。？！吗]{1,40}?)(?:吧|了|好了)[。！!\s]*$",
    )
)
_NOT_LIFTED = lazy(
    r"\b(?:can|may|could|are|is|allowed)(?:\s?not|n't)\b|\bonly\b|\bwithout\b|\b(?:can|may|could) (?:now |also |already )?(?:see|find|look|view|check|inspect|tell|notice|imagine|assume|guess|expect|read)\b|\bunless\b|\bas long as\b|\?\s*$"
)
_ALL = lazy(
    r"\b(?:all|every(?:thing)?|any)\b[^.]{0,40}\b(?:rules?|constraints?|restrictions?|i (?:said|told)|requirements?|limits?|limitations?)\b|(?:所有|全部|一切|之前的|前面的)(?:的)?(?:限制|要求|规则|约束|规定)"
)
_ADDS = lazy(
    r"\b(?:but|except|however|just|though)\b.{0,80}\b(?:don't|do not|never|must|only|keep|avoid|not|make sure|no)\b|\bfrom now on\b|\binstead\b|\balways\b|但.{0,20}(?:不|别|必须|只|要)"
)

_WEAK = frozenset(
    [
        "touch",
        "modify",
        "edit",
        "change",
        "use",
        "write",
        "add",
        "make",
        "do",
        "run",
        "create",
        "delete",
        "remove",
        "update",
        "alter",
        "work",
        "go",
        "get",
        "put",
        "set",
        "call",
        "take",
        "have",
        "keep",
        "commit",
        "push",
        "install",
        "import",
        "file",
        "folder",
        "directory",
        "code",
        "thing",
        "stuff",
        "anything",
        "everything",
        "something",
        "rule",
        "restriction",
        "constraint",
        "requirement",
        "limit",
        "ban",
        "freeze",
        "said",
        "say",
        "told",
        "about",
        "earlier",
        "before",
        "previous",
        "anymore",
        "longer",
        "now",
        "again",
        "ever",
        "new",
        "need",
        "want",
        "please",
        "always",
        "never",
        "must",
        "should",
        "only",
        "not",
        "don't",
        "any",
        "all",
        "more",
    ]
)
_STOP = frozenset(
    [
        "the",
        "a",
        "an",
        "and",
        "or",
        "of",
        "to",
        "in",
        "on",
        "for",
        "with",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "is",
        "are",
        "be",
        "was",
        "were",
        "i",
        "we",
        "you",
        "my",
        "our",
        "your",
        "me",
        "us",
        "them",
        "they",
        "there",
        "here",
        "at",
        "by",
        "from",
        "as",
        "so",
        "but",
        "if",
        "then",
        "no",
        "can",
        "may",
        "will",
        "would",
        "could",
        "do",
        "does",
        "did",
        "what",
        "when",
        "which",
        "who",
        "how",
        "than",
        "too",
        "also",
        "just",
        "into",
        "under",
        "over",
        "up",
        "out",
        "off",
        "don't",
        "dont",
        "let",
    ]
)
_WEAK_ZH = frozenset(
    [
        "修改",
        "改动",
        "使用",
        "添加",
        "删除",
        "可以",
        "不要",
        "必须",
        "禁止",
        "现在",
        "之前",
        "刚才",
        "那个",
        "这个",
        "我说",
        "说过",
        "关于",
        "要求",
        "限制",
        "规定",
        "规则",
        "所有",
        "全部",
        "文件",
        "代码",
        "不能",
        "只能",
        "不用",
        "继续",
        "允许",
        "需要",
        "务必",
        "请勿",
        "始终",
        "优先",
        "每次",
        "目录",
        "功能",
        "一定",
        "确保",
        "保持",
        "避免",
        "以后",
        "任何",
        "东西",
        "内容",
        "事情",
    ]
)
_PARTICLES_ZH = frozenset("的了我你您是在就都也把再请吧呢啊吗和与或不要用改写加跑说")
_WORD = lazy(r"[A-Za-z_][\w./+#-]*|\d+(?:\.\d+)*|[\u3400-\u9fff]+")


class Topic(msgspec.Struct, frozen=True):
    """What a lifting sentence is about: several readings of it, any of which may be meant."""

    readings: tuple[dict[str, float], ...]
    everything: bool = False
    adds: bool = False
    """The sentence also says what holds from now on."""

    def covers(self, constraint: str) -> bool:
        theirs = terms(constraint)
        return self.everything or any(_about(words, theirs) for words in self.readings)


def _about(words: dict[str, float], theirs: dict[str, float]) -> bool:
    total = sum(words.values())
    shared = sum(weight for word, weight in words.items() if word in theirs)
    strong = any(weight >= 0.9 and word in theirs for word, weight in words.items())
    return strong and shared / total >= 0.4


def lifts(own: str, text: str) -> Topic | None:
    """What a sentence takes back; None where it takes nothing back. `own` is judged, `text` gives the words
    (a quoted name is part of the topic)."""
    if re.search(r"[吗？?]\s*$", own):
        return None
    low = own.lower().replace("’", "'")[:800]
    found = [m for pattern in _LIFTS if (m := pattern.search(low)) and not _NOT_LIFTED.search(m[0])]
    if re.search(r"[\u3400-\u9fff]", own):
        found += [m for pattern in _LIFTS_ZH if (m := pattern.search(own[:800]))]
    pieces = [_piece(match, text) for match in found]
    for match in filter(None, (pattern.search(low) for pattern in _LIFTED)):
        start = max(low.rfind(mark, 0, match.start()) for mark in (",", ";", ":")) + 1
        pieces.append(text[start : match.start()])
    if not pieces:
        return None
    everything = any(_ALL.search(m[0]) for m in found) and not any(map(_named, pieces))
    return Topic(tuple(map(terms, pieces)), everything, _ADDS.search(low) is not None)


def _piece(found: re.Match[str], text: str) -> str:
    group = next(name for name, value in found.groupdict().items() if value is not None)
    return text[found.start(group) : found.end(group)]


def _named(piece: str) -> bool:
    return any(weight >= 0.9 for weight in terms(re.sub(r"[\u3400-\u9fff]", "", piece)).values())


@lru_cache(maxsize=4096)
def terms(text: str) -> dict[str, float]:
    """The words that say what a sentence is about, with their weight: names and nouns 1, `change` and its
    like 0.2. Chinese counts by pairs of characters."""
    found: dict[str, float] = {}
    for word in _WORD.findall(text):
        if "\u3400" <= word[0] <= "\u9fff":
            for a, b in pairwise(word):
                generic = a + b in _WEAK_ZH or a in _PARTICLES_ZH or b in _PARTICLES_ZH
                found[a + b] = 0.2 if generic else 1.0
            continue
        for piece in {word.lower(), *re.split(r"[/._-]+", word.lower())}:
            stem = _stem(piece)
            if len(stem) > 1 and piece not in _STOP and stem not in _STOP:
                found[stem] = 0.2 if piece in _WEAK or stem in _WEAK else 1.0
    return found


def _stem(word: str) -> str:
    word = word.strip("./-_#+'")
    for end in ("ies", "ing", "es", "ed", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)] + ("y" if end == "ies" else "")
    return word.removesuffix("e") if len(word) > 4 else word


def contradicts(old: str, old_sort: Sort, new: str, new_sort: Sort) -> bool:
    """Whether the new constraint says the opposite of the old one about the same thing."""
    if (old_sort == "forbid") == (new_sort == "forbid"):
        return False
    before, after = terms(old), terms(new)
    strong = {w for w, weight in before.items() if weight == 1.0} | {
        w for w, weight in after.items() if weight == 1.0
    }
    shared = strong & before.keys() & after.keys()
    return len(strong) > 0 and len(shared) / len(strong) >= 0.75


def normal(text: str) -> str:
    """Equal for sentences that differ in case, spacing and final punctuation only."""
    return " ".join(text.lower().split()).strip(" .!。！,，;；")
