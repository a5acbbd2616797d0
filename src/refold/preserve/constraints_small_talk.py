"""Small talk: sentences that sound like orders and are none.

People encourage each other ("never give up!"), guess ("you must be tired"), recommend what they enjoyed ("you
have to visit them") and wish each other well, in the very words in which others forbid and require. What tells
them apart is what is talked about: feelings and states of a person, the person itself ("yourself"), pleasure and
company. An assistant that is given an order is told about work.
"""
# ruff: noqa: E501 (an alternative a line reads better than wrapped ones)

from __future__ import annotations

import re
from functools import cache

_FEELING = (
    r"(?:tired|exhausted|proud|happy|excited|thrilled|glad|hungry|thirsty|sad|nervous|relieved|busy|lonely|worried|scared|sick|sore"
    r"|overjoyed|heartbroken|devastated|delighted|grateful|frustrated|stressed|amazing|awesome|wonderful|breathtaking|tough|hard|fun|nice"
    r"|great|lovely|beautiful|incredible|rewarding|special|exciting|scary|overwhelming|terrible|awful|fantastic|surreal|crazy|freezing)"
)
_VERY = r"(?:so|very|really|quite|pretty|such an?|super|absolutely|truly|all)"
_PERSON = r"(?:you|he|she|they|we|everyone|everybody|your \w+|his \w+|her \w+|their \w+|my \w+|the (?:kids|children|family|dog|cat))"
_ADVISED = r"you(?:'ve| have)? (?:really |totally |definitely |absolutely |just |so |also )?(?:should|must|have to|need to|got to|gotta|ought to)"
_PLEASURE = (
    r"(?:visit (?:us|me|them|it|there)|come (?:along|over|by|with|visit|and)|join (?:us|me)|rest\b|relax|celebrate|treat yourself|enjoy|savou?r|breathe|have fun"
    r"|be (?:\w+ )?proud|go for it|take (?:it easy|a break|care|some time|time)|get (?:some|more|a bit of) (?:rest|sleep|fresh air)|smile|have a (?:great|good|nice)|stay (?:safe|strong|positive|warm|healthy))"
)

_KINDS = (
    # A guess about a person or an experience, not a demand on a thing.
    rf"\b(?:{_PERSON}|it|that|this) must(?:'ve| have) (?:been|felt|had|loved|missed|\w+ed)\b",
    rf"\b(?:{_PERSON}|it|that|this) must be (?:{_VERY} )?{_FEELING}\b|\b{_PERSON} must be (?:{_VERY} \w+|\w+ing (?:so|up|very|like))\b",
    rf"^must(?:'ve| have| feel)\b|^must be (?:{_VERY} )?(?:{_FEELING}\b|\w+(?:ing|ful|ous)\b)|\bmust be {_VERY} \w+(?:ing|ful)\b",
    r"\b\w+ must (?:feel|smell|taste|hurt|suck|miss|love)\b",
    rf"\bi (?:must|have to|gotta) (?:say|admit|confess|tell you)\b(?! (?:that )?(?:you|no)\b)|\b{_PERSON} should be (?:{_VERY} )?{_FEELING}\b",
    # Encouragement: the object is the person.
    r"\b(?:believe in|trust|be|love|blame|hard on|give up on|doubt|proud of|forgive|for|good to|kind to|care of|true to|push|listen to) (?:your ?sel(?:f|ves)|your (?:heart|gut|body|dreams?))\b",
    r"^(?:\w+,? )?(?:never|don't|do not) (?:ever )?(?:give up|lose (?:hope|heart|faith)|stop (?:believing|dreaming|smiling|being)|look back|grow up|change who)\b(?! on the)",
    r"\b(?:never|don't|do not) let (?:any(?:one|body|thing)|it|them|him|her|that|this|fear|people|others|life) (?:tell|get|stop|bring|hold|keep|put|take|ruin|make)\b",
    r"\bdon't be (?:so |too |a )?(?:hard|shy|silly|afraid|sad|nervous|jealous|sorry|down|modest|scared|stranger|discouraged|embarrassed|ridiculous)\b",
    r"\b(?:follow|chase|live) your (?:dreams?|heart|passion|best life|gut)\b|\b(?:hang in there|keep (?:smiling|shining|going|it up|up the|your (?:chin|head) up)|stay (?:safe|strong|positive|true))\b",
    # Advice about pleasure, rest and company.
    r"\byou should (?:totally|so|seriously)\b",
    rf"\b{_ADVISED} {_PLEASURE}\b|\b(?:make sure|be sure|remember|don't forget)(?: you| to)? {_PLEASURE}",
    rf"\b{_ADVISED} (?:try|see|watch|taste|hear|meet|check (?:it|them|that|this) out)\b[^.?]{{0,80}}(?:!|\b(?:so good|delicious|amazing|unreal|to die for|love (?:it|them))\b)",
    r"\b(?:meet up|hang out|catch up|get together|grab (?:a )?(?:coffee|lunch|drinks?)|lose touch|in touch)\b",
    # What somebody holds dear.
    r"\bimportant to (?:me|us|him|her|them)\b(?! that (?:you|the|all|no|it|your)\b)|\bimportant (?:to|that we|we) (?:teach|value|support|care|listen|love|appreciate|cherish|embrace|help (?:each|one|others|people))\b",
    # Offers and consolation.
    r"\b(?:any ?time|whenever) you need\b|\bdon't hesitate\b|^(?:\w+: )?always (?:here|there|happy|glad)\b|\b(?:i'm|we're|it's|i'll|we'll|we can|keeps? (?:me|us))\b[^.]{0,80}\bno matter what\b",
    r"\bdon't (?:ever )?forget (?:that )?(?:you|they|we|i)\b(?![^.]{0,80}\b(?:must|can't|cannot|not allowed|only|should)\b)|\blet's keep (?:each other|going|moving|dreaming|pushing|at it)\b",
    r"\bi (?:really |just )?want to keep \w+ing\b|\bi don't want to (?:let|miss|lose) \w+",
    # Habits of people.
    r"^(?:\w+: )?(?:he|she|he's|she's|they're)\b(?![^.]{0,120}\b(?:must|should|may|can't|cannot|wants?|needs?|insists?|says?|said)\b)",
    r"\bwe (?:always|never|only) (?:go|do|run|work) (?:to (?:the|our|my|his|her)\b|out\b|there\b|on (?:a|our)\b|for (?:a|walks?)\b|camping|hiking|swimming|fishing|skiing|\w+ing together)",
    # Set phrases.
    r"\bnever say never\b|\bget me started\b|\bcan(?:'t|not) (?:go wrong|beat|wait|complain)\b|^stop it,? (?:you|i)\b|\bno pain,? no gain\b|\bno guts,? no glory\b|\bdon't (?:mention it|sweat it|beat yourself)\b|\btake it one\b",
)  # fmt: skip


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{kind})" for kind in _KINDS))


def small_talk(text: str) -> bool:
    """Is this sentence (lower case) meant for a person's heart, not for somebody's work?"""
    return _pattern().search(text) is not None
