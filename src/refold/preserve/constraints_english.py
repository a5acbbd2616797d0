"""How people forbid, require and prefer in English.

One table of patterns, strongest first, and what makes a sentence something else: a question, a report, a
guess. Patterns are judged on a sentence in lower case with quotations blanked; all are bounded.
"""
# ruff: noqa: E501 (rows of a table: one cue a row reads better than wrapped patterns)

from __future__ import annotations

import re
from functools import cache
from typing import TypeAlias

from refold.preserve.constraints_small_talk import small_talk
from refold.preserve.constraints_text import Sort, Verdict
from refold.preserve.lazy import lazy

_START = (
    r"(?:^|[,;:(—–…!]\s*|\s-+\s|\.\.\s?|\b(?:and|but|so|then|also|please|pls|plz|just|or|again|ok|okay|btw|however"
    r"|remember|note|important|reminder|rule|yes|yeah|well|actually|dude|again|therefore|still|otherwise|instead"
    r"|repeat|said|say|nb|fyi|let's|lets|plus|you to|team|hey|hi|first|finally|lastly|above all|one more thing|though|ever"
    r"|whatever you do|that said|ps|p\.s\.|kindly|unless asked|anyway|alright|right|sure|thanks|cool|great)[,:]?\s+)"
)
_DO = (
    r"(?:accept|access|act|add|address|adjust|adopt|allow|alter|analy[sz]e|answer|apply|approve|ask|assume|attach|auto"
    r"|base|be|bother|break|bring|build|bump|bypass|cache|call|cast|catch|change|check|choose|clean|clone|close|collect"
    r"|comment|commit|compile|compress|configure|connect|consider|contact|convert|copy|cover|create|cut|debug|define"
    r"|delete|depend|deploy|design|deviate|disable|discard|display|do|document|download|drop|duplicate|edit|emit|enable"
    r"|encode|enforce|execute|exceed|expand|export|expose|extend|extract|fetch|fill|fix|flag|force|forget|format|generate"
    r"|get|give|go|guess|handle|hard-?code|have|hide|hold|ignore|implement|import|include|increase|inherit|inject|inline"
    r"|insert|inspect|install|introduce|invent|invoke|issue|keep|launch|leak|leave|let|link|lint|list|load|log|look|lose"
    r"|make|mark|measure|mention|merge|migrate|mix|mock|modify|monkey-?patch|move|mutate|name|nest|notify|omit|open"
    r"|optimi[sz]e|output|overwrite|override|paste|patch|perform|pick|pin|place|plan|post|prefix|present|print|process"
    r"|produce|propose|provide|publish|pull|push|put|query|quote|raise|read|rebase|rebuild|recreate|reduce|refactor"
    r"|reference|reformat|refresh|regenerate|release|rely|remove|rename|render|reorder|repeat|replace|reply|report|request"
    r"|reset|resolve|respond|restart|restore|restructure|retry|return|reuse|review|revert|rewrite|rm|roll|round|run"
    r"|save|scan|schedule|send|serve|set|share|ship|show|silence|simplify|skip|sort|speak|split|squash|stage|start|stop"
    r"|store|strip|submit|suggest|suppress|swallow|switch|talk|tell|test|throw|touch|track|translate|treat|trigger"
    r"|truncate|trust|try|turn|type|uninstall|unwrap|update|upgrade|upload|use|validate|verify|view|wait|waste|wire"
    r"|work on|wrap|write|put|mess|fiddle|tamper|interfere|play|spend|skimp|reinvent|rush|summari[sz]e|explain|cite|mutate"
    r"|introduce|refer|reorgani[sz]e|sign|tag|target|chain|surround|bundle|minify|sprinkle|stray|proceed|continue|jump|exit"
    r"|kill|hit|hammer|bill|charge|book|cancel|refund|email|message|order|buy|pay|schedule|recommend|offer|disclose|reveal)"
)
_NOT_A_COMMAND = (
    r"(?!know|think|see\b|understand|get (?:it|why|how|what|the point|me wrong)|remember|recall|care|worry|mind|like"
    r"|believe|feel|work|seem|mean|agree|expect|look|matter|appear|hesitate|have (?:a|the|any|to|time|access)\b|sweat|panic"
    r"|be (?:afraid|shy|silly|sorry)|exist|happen|help|want|need|show up|let me (?:down|know)|sound|help|stop believing)"
)
_PAST = r"(?!\w+ed\b|saw|got|had|was|were|did|made|went|came|found|ran|knew|thought|said|took|gave|wrote|heard|met|been|mind|seen|done|seems?\b|works?\b|happens?\b|gets?\b|has\b)"
_CONVENTION = r"(?:use|commit|push|write|import|allow|mock|ship|store|log|put|add|do|accept|deploy|touch|edit|name|prefer|target|support|merge|squash|rebase|throw|return|hard-?code|mix|release|pin|go|run|work|call|indent|format|document|test|review|expose)"
_DONE = r"(?:been|\w+ed|run|hit|left|set|put|cut|gone|come|got\w*|broken|lost|forgotten|done|made|had|taken|seen|written|sent|crept|slipped|fallen|happened|become|begun|chosen|given|grown|hidden|kept|read|said|shut|slept|told|thrown|won)\b"
_GUESS = r"(?:wrong|broken|missing|stale|confus\w*|kidding|joking|mistaken|tired|something|some\b|an? (?:bug|reason|mistake|way|problem|better|race|cach\w+|typo)|due|because|caused|related|coming|what|why|how|where|on (?:vacation|holiday)|nice|hard|difficult|happening|there|out of|fun|the (?:reason|cause|problem|culprit|issue|case|one|proxy|cache))\b"
_UNLIKELY = r"(?:fine|ok|okay|good|ready|enough|easy|possible|able|working|fixed|done|there|quick|straightforward|simple|safe|fast|trivial|obvious|back|gone|sufficient|correct|right|hard|difficult|a problem|an issue|too|interesting|helpful|relevant|similar|pretty|better|close|around|roughly|about|in there|somewhere|available|clear|noted|happening|coming|caused|due|related|because|something|some|a bug|wrong|broken|missing|stale|confus\w*|kidding|joking|mistaken|tired|nice|great|cool|real|one of|the (?:reason|cause|problem|culprit|issue|case|one)|a (?:reason|mistake|bug|way|problem|simple|better|race|cach\w+|typo))\b"

Row: TypeAlias = tuple[Sort, float, str, str]
"""What it is, how strong, words of which one must occur (`_` is a blank: a cheap gate), the pattern."""
_ENGLISH: tuple[Row, ...] = (
    # Absolute wording.
    ("forbid", 1.0, "circumstance condition at_no no_means negotiable up_for last_thing account in_no no_matter all_costs exception", r"\bunder (?:no|any) (?:circumstances?|conditions?)\b|\bat no (?:point|time)\b|\bby no means should\b|\bnot (?:negotiable|up for (?:debate|discussion))\b|\bthe last thing i want\b|\bon no account\b|\bin no (?:case|event)\b|\bno matter what\b|\bat all costs\b|\bno exceptions\b|\bnon-?negotiable\b"),
    ("forbid", 1.0, "never ever", r"\b(?:must|shall|should|may|are to|is to|has to|have to|need to|needs to)\s+(?:absolutely\s+)?(?:never|not\s+ever)\b"),
    ("forbid", 1.0, "never", rf"{_START}(?:absolutely\s+)?never(?:,?\s+ever|\s+again)?,?\s+{_PAST}{_DO}\b"),
    ("forbid", 1.0, "must shall", r"\b(?:must|shall)\s*(?:not|n't)\b(?! have)|\bmustnt\b"),
    ("forbid", 0.95, "forbidden prohibited banned limits bounds scope allowed permitted acceptable option read sacred not_to taboo go", r"\b(?:is|are|be|as|stays?|remains?|strictly|considered)\s+(?:strictly\s+|absolutely\s+|completely\s+|currently\s+|also\s+)?(?:forbidden|prohibited|banned|off[- ]limits|out of bounds|out of scope|not allowed|not permitted|not acceptable|unacceptable|not an option|disallowed|read[- ]only(?: for you)?|sacred|not to be|taboo|a no-?go)\b"),
    ("forbid", 0.95, "forbidden prohibited limits allowed scope hands", r"^(?:strictly )?(?:forbidden|prohibited|off[- ]limits|not allowed|out of scope)\b|\bhands off\b|\b(?:no|not) \w+(?:ing|s)? allowed\b"),
    ("forbid", 0.9, "you", r"\byou(?:'re| are)?\s+(?:can\s?not|can't|cant|may not|are not to|not to|aren't to|are not allowed|aren't allowed|not allowed|are forbidden|are only allowed|only allowed|can only|may only|won't|will not)\b(?! (?:see|tell|find|imagine|believe|really|always|possibly|get|be able|need|have to|notice|regret|miss))"),
    ("forbid", 0.85, "we_", r"\bwe\s+(?:can\s?not|can't|cant|must not|may not)\s+(?:afford|break|change|touch|use|modify|ship|rely|add|introduce|remove|lose|expose|leak|have|let|risk|allow|drop|bump|upgrade|depend|require|store|log|deploy|rename|alter|exceed|take|go over)\b"),
    ("forbid", 0.85, "be_", r"\b(?:can\s?not|can't|may not|should not|shouldn't|must not|needn't) be (?:changed|modified|touched|edited|altered|deleted|removed|renamed|moved|used|exceeded|broken|committed|pushed|logged|exposed|shared|stored|overwritten|bypassed|skipped|merged)\b"),
    # Negative imperatives.
    ("forbid", 0.9, "do_n don do_not", rf"{_START}(?:do not|don't|dont|do n't|do not ever|don't ever|don't you dare)\s+(?:ever\s+|even\s+|just\s+|under any circumstances\s+|accidentally\s+|blindly\s+|simply\s+|try to\s+|bother\s+(?:with|to)\s+|go (?:and |around )?|start\s+|you\s+)?(?:forget\b|{_NOT_A_COMMAND}{_DO}\b|\w+ing\b)"),
    ("forbid", 0.85, "want need like wish accept tolerate", r"\bi\s+(?:really\s+|definitely\s+|absolutely\s+|still\s+|also\s+)?(?:do not|don't|dont|never|don't ever|do not ever)\s+(?:want|need|like (?:it when|when|you|seeing|having)|wish|accept|tolerate)\b(?! to (?:know|ask|be|bother|sound|go into|complain))"),
    ("forbid", 0.85, "hate dislike stand object refuse", r"\b(?:i|we)(?:'d| would)?\s+(?:hate|dislike|can't stand|cannot stand|object to|refuse)\s+(?:it\s+|to see\s+)?(?:when|if|\w+ing|any|to have)\b"),
    ("forbid", 0.85, "avoid refrain abstain steer stay keep beware stop quit", rf"{_START}(?:avoid|refrain from|abstain from|steer clear of|stay away from|stay out of|keep away from|keep (?:your )?hands off|keep out of|beware of|stop|quit)\s+(?:\w+ing\b|the\b|any\b|all\b|using\b|it\b|my\b|our\b|q_*|[\w/.-]+)"),
    ("forbid", 0.8, "without", r"\bwithout\s+(?:ever\s+)?(?:touch|chang|modify|break|add|us|alter|affect|introduc|remov|delet|edit|ask|install|import|renam|commit|push|los|rewrit|creat|involv|rely|expos|leak|disturb|mess|check|consult|restart|upgrad|downgrad|refactor|reformat|mov|tell|rebas|squash|chang|hard-?cod|disabl|skipp|resort|bump|increas|pull)\w*ing\b"),
    ("forbid", 0.8, "without", rf"{_START}(?:please )?(?:make|do|build|write|implement|run|solve|fix|get|try|finish)\b[^.?!]{{1,60}}\bwithout (?!success|errors?\b|problems?|issues?|looking|thinking|knowing)\w+"),
    ("forbid", 0.8, "as_long provided", r"\b(?:as long as|provided(?: that)?)\b[^.?!]{0,60}\b(?:not|don't|doesn't|aren't|isn't|stays?|remains?|never|no|unchanged|untouched)\b"),
    ("forbid", 0.85, "without", r"\bwithout (?:my|explicit|prior|first|getting my|any new|any extra|any additional)\b|\bi (?:need|want)\b[^.?!]{0,80}\bwithout\b"),
    ("forbid", 0.8, "no_", r"(?:^|[,;:(.!—–]\s*|\s-+\s|\b(?:and|but|please|also|absolutely|again|seriously|so|plus|omfg|really|ok|okay|btw|allow|with absolutely)\s+)no\s+(?:(?:new|more|extra|other|additional|external|third[- ]party|further|fucking|unnecessary|custom|global|inline|magic|hidden|hard-?coded|unrelated|breaking|raw|direct|fancy|such|any)\s+)*(?!one\b|idea|prob\b|problem|worries|need|way\b|matter|longer|luck|doubt|wonder|clue|thanks|thank|rush|hurry|it\b|that|this|i\b|i'|we\b|you|he\b|she\b|they|the\b|there|but\b|and\b|not\b|sorry|wait|can\b|is\b|was\b|do\b|don|never|just\b|please|of\b|if\b|so\b|because|what|why|how\b|sure|big deal|harm|my\b|its?\b|in\b|on\b|for\b|let|use\b|good|offen[cs]e|surprise|pressure|joke|comment\b|difference|success|response|result|effect|change\b)[\w/.+#'-]+(?:\s+(?!is\b|are\b|was\b|were\b|works?\b|happens?\b|found\b|shows?\b|exists?\b|came\b|got\b|seems?\b|appears?\b|returned\b|matche?s?\b|has\b|have\b|had\b|did\b|does\b|could\b|can\b|yet\b|so far\b)[\w/.+#'-]+){0,14}\s*(?:[.!,;:)—–]|$)"),
    ("forbid", 0.8, "no zero single even_one", r"\b(?:there )?(?:must|should|shall|can|may) be (?:absolutely )?(?:no|zero)\b|\bzero (?:new )?(?:dependencies|warnings|tolerance|downtime)\b(?! (?:is|was))|\bnot (?:a single|even one)\b"),
    ("forbid", 0.75, "not_ let would_you could_you", rf"{_START}(?:let'?s|lets) (?:not|never|avoid|skip)\b|\b(?:would|could) you (?:please )?(?:not|stop|avoid)\b|{_START}not (?:the|in|on|under|with|to|for) \w+[^?]{{0,40}}!$|{_START}not to \w+"),
    ("forbid", 0.85, "no_", rf"{_START}(?:please )?(?:make|use|add|introduce|take|accept|allow|create|write|include|send|show|install|leave|have)\s+no\s+(?!more sense|sense|difference)[\w-]+"),
    ("forbid", 0.85, "may_not", r"(?<![\w'])(?!(?:i|it|this|that|they|there)\b)[\w-]+ may not\b(?! (?:be (?:able|necessary|needed|the|a)\b|have|work|need|know|want|exist|see|like|even|always|matter))"),
    ("forbid", 0.85, "never nowhere nothing not_to", r",\s*(?:but |and )?never (?:in|to|on|with|from|via|by|the|as|through|for|at|into|inside|directly|without)\b|\bnowhere else\b|\bnothing but\b(?! (?:trouble|problems|issues))|\b(?:is|are) not to\b"),
    ("forbid", 0.8, "forbid prohibit disallow allow permit accept require demand insist mandate", r"\b(?:forbids?|prohibits?|disallows?|does not (?:allow|permit)|doesn't (?:allow|permit)|do(?:es)? not accept|won't accept)\b(?! me\b)|\b(?:policy|style ?guide|law|rules?|clients?|customers?|legal|compliance|contract|management|security team) (?:requires?|demands?|insists?|mandates?)\b"),
    # Requirements.
    ("require", 0.85, "rule constraint requirement restriction policy important reminder caution convention guideline must condition", r"^(?:hard |strict |golden |ground |general |one |another |first |last )?(?:rule|constraint|requirement|restriction|policy|important|reminder|caution|convention|guideline|must|condition)s?(?: (?:number |no\.? ?|#)?\w+)?\s*(?::|—|–| -+ )\s*\S"),
    ("require", 0.85, "requirement constraint condition rule restriction limitation policy ask", r"\b(?:my|our|the|one|only|hard|main|another|key|first|last|a) (?:\w+ )?(?:requirement|constraint|condition|rule|restriction|limitation|policy|ask)s? (?:here )?(?:is|are|says|remains|that)\b(?! (?:why|what|unclear|wrong|broken|gone|lifted|over))"),
    ("require", 0.85, "only", r"^only (?:the |our |my |an? )?[\w' -]{2,40} (?:may|can|should|is allowed|are allowed|must|shall|has|have)\b(?! (?:be seen|see|reproduce))"),
    ("require", 0.7, ",_not over", r"^(?:\w[\w .'/-]{1,40}), not [\w .'/-]{2,40}[.!]?$|^[\w -]{3,30} over [\w -]{3,30}[.!]?$"),
    ("require", 0.75, "i_need i_want i_expect i_require i_would i'd", r"\bi (?:need|want|expect|require|would like|'d like) (?:the|this|it|them|everything|all|every|any|your|each|my|these|those|no|both)\b[^.?!]{0,50} to (?:be|stay|remain|run|fit|have|use|look|support|keep|only|never|not|always|follow|match|compile|pass)\b"),
    ("require", 0.75, "stay remain kept go belong live _in_", r"\b(?:stays?|remains?|is kept) (?:as[- ]is|as it is|unchanged|untouched|the same|where it|in place|private|compatible|off|on\b(?= python| version| the))|\b(?:goes|go|belongs?|lives?) (?:only |exclusively )(?:in|into|to|under|inside|on|below)\b|\b(?:everything|all \w+|comments|docs) in (?:english|chinese|german|french|spanish|japanese)\b"),
    ("require", 0.75, "instead rather", rf"{_START}(?:instead of|rather than) \w+ing\b[^.?!]{{1,80}},\s*{_DO}\b"),
    ("require", 0.9, "must", rf"(?<!\bi )(?<!it )(?<!that )(?<!this )(?<!there )(?<!he )(?<!she )(?<!something )\bmust\b(?!-)(?! (?:have {_DONE}|'ve|admit|confess|say\b|be {_GUESS}))"),
    ("require", 0.9, "must", rf"\b(?:it|that|this|there|they) must\b(?! (?:have {_DONE}|'ve|be (?:an?|the|my|our|your|his|some|because|due|that|in the|{_GUESS})))"),
    ("require", 0.9, "always", rf"{_START}(?:you\s+)?always\s+{_PAST}(?!\w+ing\b|the same|been|a\b|an\b|happ)[a-z]+|\b(?:you|please|should|to|will|must|and|shall)\s+always\s+{_PAST}{_DO}\b"),
    ("require", 0.85, "only solely exclusively", rf"{_START}only\s+(?:ever\s+)?{_DO}\b(?!s|ed)|\buse only\b|\b(?:only|solely|exclusively) (?:use|with the|from the standard|ever|the std|if i|when i|after i|once i)\b|{_START}{_DO}\b(?:(?!\b(?:that|which|who|where|returns?|returning|containing|shows?)\b)[^.?!]){{0,80}}\b(?:only|exclusively)\b(?! (?:happen|work|fail|see|get|show|one\b|thing|problem|a |the (?:first|last)))"),
    ("require", 0.85, "only", r"^(?:[\w.+#/-]+\s+){1,5}only(?:,?\s+(?:please|here|for .{1,40}|no .{1,40}))?[.!]?$"),
    ("require", 0.85, "sure certain ensure see_to guarantee care remember mind attention watch double", rf"{_START}(?:please\s+)?(?:make (?:very |absolutely |double )?(?:sure|certain)|ensure|be (?:very |absolutely )?(?:sure|certain)|see to it|guarantee|take care (?:to|of|that|not)|remember (?:to|that|not)|keep in mind|bear in mind|be (?:extra |very |really )?careful|be mindful|mind you|pay attention|watch out|double[- ]check)\b"),
    ("require", 0.8, "sure", r"\b(?:make|making) sure (?:that |to |not |you |it |all |the |every |nothing |no )"),
    ("require", 0.85, "stick adhere comply conform abide respect honor honour limit restrict confine cap preserve maintain retain stay default reserve target mirror match", rf"{_START}(?:please\s+)?(?:just\s+)?(?:stick (?:to|with)|adhere to|comply with|conform to|abide by|respect|honou?r|limit|restrict|confine|cap|preserve|maintain|retain|stay (?:within|under|on|in|with|away|out|consistent|below|at|inside|compatible|close|as)|default to|reserve|target|mirror|match)\s+\S"),
    ("require", 0.85, "keep", rf"{_START}(?:let'?s |lets |please |you )?keep\s+(?!\w+ing\b(?! (?:style|convention|order|conventions))|up\b|at it|me\b|in touch|it up|calm|on\b|an eye|this in mind|track)"),
    ("require", 0.85, "leave", rf"{_START}(?:let'?s |please |just )?leave\s+[^.?!]{{1,80}}?\b(?:alone|as[- ]is|as it is|as they are|as it was|untouched|unchanged|out\b|in place|intact|be$|be\b(?=[.!,])|for (?:later|me|now)|how it is|the way)"),
    ("require", 0.8, "stay remain kept left continue preserved", r"\b(?:must|should|needs? to|ha(?:s|ve) to|(?:i|we) (?:want|need) [^.?!]{1,60} to|let|(?:is|are|ought|supposed|expected) to)\s+(?:stay|remain|be kept|be left|continue to be|be preserved)\b"),
    ("require", 0.8, "follow", rf"{_START}follow\s+[^.?!]{{0,60}}\b(?:styles?|conventions?|guidelines?|guides?|patterns?|rules?|standards?|spec\w*|pep|formats?|practices?|structure|naming|commits|layout|tdd|principles?|semver)\b"),
    ("require", 0.85, "must mandatory obligatory compulsory required essential imperative vital crucial critical paramount important necessary", r"(?<!may )(?<!might )\b(?:is|are|it'?s|be)\s+(?:a must|mandatory|obligatory|compulsory|required|(?:absolutely |very |really |super |extremely )?(?:essential|imperative|vital|crucial|critical|paramount|important|necessary) (?:that|to|you|we))\b(?! (?:know|understand|note))"),
    ("require", 0.8, "you", r"\byou(?:'ll)? (?:really |also |absolutely )?(?:need to|have to|are to|'re to|are required to|are expected to|are supposed to|ought to|shall|had better|better)\b(?! (?:be kidding|see (?:this|it)|understand|know|admit|excuse|be able|and\b|or\b))|\byou'd better\b"),
    ("require", 0.75, "need has_ have_", rf"(?<![\w'])(?!(?:i|we|he|she|who|not|to|might|may|will|would|did|does|do|don't|doesn't|didn't|won't|really|still|just|only|also|probably|you|users?|people|customers?)\b)[a-z_][\w'-]*\s+(?:all |also |both |always |still )?(?:needs? to|has to|have to|ha(?:s|ve) got to)\s+(?:be|stay|remain|pass|work|support|run|fit|go|use|follow|live|match|handle|include|contain|return|have|compile|build|come|keep|respect|look|read|cover|survive|push|allow|never|not|always|only)\b(?!(?<=be) {_UNLIKELY})"),
    ("require", 0.7, "we_", r"\bwe (?:need|have|want|ought) to (?:keep|stay|support|preserve|maintain|remain|comply|respect|avoid|make sure|ensure|stick|be (?:careful|compatible|able to)|use only|only|always|never|not)\b"),
    ("require", 0.75, "you_should", rf"\byou should(?:n't| not)?\b(?! (?:see|find|get|be able|notice|have|know|now|already|also (?:see|find|have)|probably (?:see|find|have)|be {_UNLIKELY}))"),
    ("forbid", 0.8, "should ought", rf"\b(?:should not|shouldn't|shouldnt|ought not)\b(?! (?:be {_UNLIKELY}|take (?:long|more|too)|matter|have\b|cause any (?:problem|issue|trouble)))"),
    ("require", 0.7, "should", rf"\b(?!(?:it|that|this|there|i|we|they|which|what|something|things|everything|he|she|how|where|who)\b)[a-z_][\w'-]*\s+should\s+(?:also\s+|all\s+|both\s+|just\s+|really\s+|probably\s+)?(?!be {_UNLIKELY}|have (?:been|\w+ed)|work|fix|do it|help|see|suffice|give|i\b|we\b|you\b|fail|probably)[a-z]+"),
    ("require", 0.7, "should", r"\b(?:it|this|that|they|there|everything|we|which)\s+should\s+(?:always|only|use|stay|remain|keep|follow|match|support|respect|be (?:written|named|in\b|at (?:least|most)|under|below|placed|kept|typed|compatible|no\b|called|formatted|idempotent|deterministic|configurable|backwards?|at\b|done (?:in|by|with)|optional))"),
    # Standing orders and approvals.
    ("require", 0.8, "from going henceforth all_times rest_of rule convention in_all in_every time_you whenever after_ before_", r"\b(?:from (?:now|here|this point) on|going forward|henceforth|from here on out|at all times|for the rest of (?:this|the|our)|as a (?:general )?rule|by convention|in (?:all|every) (?:case|file|commit|answer|reply|message)s?|(?:every|each|any) ?time you|whenever you|(?:after|before) (?:every|each)\b|before (?:you (?:commit|push|start|change|edit|touch|finish|merge|deploy|delete|submit)|committing|pushing|merging|deploying|any (?:commit|change|push)))\b(?![^.]{0,60}\b(?:i (?:get|see|run|had|have)|it (?:fails|crashes|breaks))\b)"),
    ("require", 0.9, "me us my i_ i'", r"\b(?:ask|check with|consult|confirm with|warn|notify|ping|talk to|clear (?:it|that|this) with|run it by) (?:me|us)\b[^.?]{0,40}\b(?:first|before|prior|beforehand|if|when|whenever|instead|rather)\b|\b(?:when|if) in doubt\b|\b(?:wait|hold off|pause|stop)\b[^.?]{0,40}\b(?:for my|until i|till i|for me)\b|\b(?:unless|until|till|before) i (?:explicitly |specifically |have |'ve |personally )?(?:say|tell|ask|approve\w*|confirm\w*|give|ok|okay|sign\w*|request|review\w*|allow|agree\w*|told|said)\b|\b(?:need|requires?|get|with) my (?:explicit )?(?:ok|okay|approval|permission|sign|consent|go-?ahead)\b|\bonly (?:after|with|once) (?:my|i)\b"),
    ("require", 0.75, "most than least max up_to under below within exceed", rf"{_START}(?:please )?(?:{_DO})\b[^.?!]{{0,80}}\b(?:at most|no more than|not more than|no longer than|at least|max(?:imum)?(?: of)?|up to|fewer than|less than|under|below|within|not exceed\w*)\s+(?:the\s+)?(?:\d|a |one|two|three|four|five|six|ten|half)"),
    ("require", 0.75, "most than least max up_to", r"^(?:at most|no more than|at least|max(?:imum)?(?: of)?|up to)\s+(?:\d+|one|two|three|five|ten)\b|\b(?:max|maximum) (?:line )?(?:length|size|width|depth|of) (?:is |of |: ?)?\d+|\b(?:max|at most) \d+ \w+[.!]?$"),
    # Preferences and conventions.
    ("prefer", 0.6, "prefer rather insist favo lean ideally", r"\b(?:i|we|my team|our team|the team)(?:'d| would)? (?:strongly |really |generally |usually |much |kinda |also |definitely |still |always |personally |greatly |very much )?(?:prefer|rather|insist|favou?r|lean towards?)\b(?! not to (?:say|answer))|\b(?:my|our) (?:strong |personal |general )?preference\b|\bpreferably\b|\bideally\b(?! (?:it|this) would have)"),
    ("prefer", 0.6, "prefer favo lean try aim strive easy minimi", rf"{_START}(?:please )?(?:prefer|favou?r|lean towards?|try (?:not to|to (?:avoid|keep|use|stick|not|minimi[sz]e|stay|reuse|limit)|and keep)|aim (?:for|to keep|at)|strive|go easy|minimi[sz]e)\b"),
    ("prefer", 0.6, "want like need love appreciate expect", r"\bi(?:'d| would)? (?:really |also |definitely |only |just |actually )?(?:want|like|need|love|appreciate|expect)(?: it if)? (?:you |it |them |everything |all [\w ]{1,30}|the [\w ]{1,40}|every [\w ]{1,30}|only |this )?(?:to |if )?(?:only|always|never|keep|kept|use|stick|avoid|not\b|no\b|be (?:written|kept|in\b|consistent|typed)|stay|remain|in (?:english|chinese)|didn't|don't|untouched|e2e|minimal|as few|as little)\b"),
    ("prefer", 0.65, "only just expect require insist demand", r"\b(?:i|we)(?:'d| would)? (?:only|just) (?:ever )?(?:want|accept|need|allow|support|use|merge|ship)\b(?! to (?:know|see|ask|understand|check|confirm|test|try|say|add|point))|\bi (?:must |have to )?(?:expect|require|insist|demand)\b(?! (?:that )?(?:it|this) (?:to (?:work|be)|will))"),
    ("prefer", 0.65, "never always only don't do_not strictly exclusively generally do_n't", rf"\b(?:we|our team|the team|this (?:project|repo|codebase|team|company)|our (?:project|repo|codebase|company)|the (?:project|repo|codebase)|in this (?:project|repo|codebase),? we) (?:never|always|only|don't|do not|strictly|exclusively|generally|do n't)(?: ever)? {_CONVENTION}s?\b(?! (?:it (?:yet|anymore)|to (?:get|see|fail)))"),
    ("prefer", 0.65, "instead rather over not only exclusively resort", rf"{_START}(?:use|write|call|pick|choose|go with|run|import|put|return|throw|raise|make|have|name|store|format|do|build|test|sort|log|handle|implement|say|take|create|add|apply|work|place|indent|speak|commit|install|read|show|send|fetch|type|declare|define|pass)\b(?:(?!\b(?:that|which|who|where|returns?|returning|containing|shows?)\b)[^.?!]){{1,90}}?(?:\binstead of\b|\brather than\b|\binstead\b|\bover\b|,? (?:and )?not\b(?! (?:sure|only|just))|\bonly\b|\bexclusively\b|\bas a last resort\b)"),
    ("prefer", 0.65, "use_", rf"{_START}use\b[^.?!]{{1,70}}\b(?:for (?:all|every|any|each|new|everything|indent\w*|format\w*|nam\w+|commits?|commit messages|messages|logg?\w*|tests?|testing|dates?|times?\w*|dependenc\w+|package\w*|comments?|doc\w*|config\w*|styling|styles|imports?|strings?|money|errors?|ids?|variables?|functions?|classes|constants|the (?:tests?|commits?|docs?|database|api|ui)|anything|math|http|dates|branch\w*|quot\w+|state|secrets|async\w*)|everywhere|throughout|across|wherever|whenever|consistently|in all|in every|at all)\b"),
    ("prefer", 0.65, "use_", rf"{_START}(?:please )?use\s+(?:(?:the|our|my)\s+)?(?:existing|same|strict|standard|tabs?|spaces?|\d[- ]space|four[- ]space|two[- ]space|type hints|british|american|metric|single quotes|double quotes|python ?\d|node ?\d|utc|iso|camel ?case|snake_?case|kebab|pascal|early returns|semantic|conventional|plain|vanilla|async|immutable|functional|relative|absolute|fully qualified|parameteri[sz]ed|prepared|utf-?8|lf\b|named|explicit)\b"),
    ("require", 0.7, "reply respond answer write speak talk communicate comment document explain report summari", rf"{_START}(?:please |always |only )?(?:reply|respond|answer|write|speak|talk|communicate|comment|document|explain|report|summari[sz]e)(?: to me| back| everything| the \w+| all \w+| your \w+)? (?:only )?(?:in|with)\s+(?:english|chinese|german|french|spanish|japanese|korean|italian|portuguese|russian|dutch|plain|simple|markdown|json|yaml|mandarin|bullet\w*|british|american|one|a single|short|full)\b"),
    ("require", 0.65, "indent quote prefix suffix alphabeti encode", rf"{_START}(?:please |always )?(?:indent|quote|prefix|suffix|alphabeti[sz]e|encode) (?:everything |all \w+ |names |them |it )?(?:with|by|using|as|in)\b"),
    ("require", 0.7, "be_", rf"{_START}(?:please )?be (?:brief|concise|terse|succinct|conservative|consistent|strict|explicit|precise|gentle|polite|quick about)\b"),
    ("prefer", 0.55, "need", r"\b(?:no need (?:to|for)|you (?:do not|don't|needn't) (?:need|have) (?:to )?|needn't)\b(?! (?:worry|apologi[sz]e|thank))(?! to (?:worry|apologi[sz]e|be))"),
    ("require", 0.7, "backward frozen locked fixed final stable", r"\b(?:backwards?[- ]compatib\w+|backwards?[- ]compat) (?:is|must|has|needs|should|matters|required)|\b(?:the|our|this|that) (?:[\w-]+ )?(?:schema|api|interface|branch|contract|format|spec|release|public api) (?:is|are) (?:frozen|locked|fixed|final|stable)\b"),
    ("require", 0.7, "budget limit deadline maximum cap ceiling nothing nobody no_one any allowed permitted i_want i_need i_expect", r"\b(?:the (?:budget|limit|deadline|maximum|cap|ceiling)|(?:budget|limit|maximum|cap)) (?:is|of|:)\s*(?:\$|€|£)?\d|\bdeadline is\b|\bnothing\b[^.?!]{0,40}\b(?:may|should|must|can|shall|needs to)\b(?! (?:have|see|explain))|\b(?:nobody|no one)\b[^.?!]{0,40}\b(?:may|should|must|is allowed)\b(?! have)|\b(?:use|take|pick|change|edit|touch|do|choose)\b any\w*[^.?!]{0,40}\b(?:except|but not|other than)\b|\b(?:we're|we are|you're) not (?:allowed|permitted) to\b|\bi (?:want|need|expect) (?:everything|all [\w-]+|every [\w-]+) (?:to be )?(?!to\b)\w+(?:ed|en)\b"),
)  # fmt: skip

_QUESTION = lazy(
    r"^(?:(?:so+|and|but|ok|okay|hmm+|wait|well|btw|also|hey|hi|then|or|now|sorry|actually|quick question)[,:]?\s+){0,3}"
    r"(?:(?:why|what|what's|how|where|who|which|whose)\b|when (?:will|do|does|did|is|are|should|can)\b|any (?:idea|chance|reason)\b"
    r"|do (?:i|we|you|u|they|people|users|these|those)\b|(?:is|are|am|was|were|does|did|don't|doesn't|didn't|isn't|aren't|wasn't|should|shouldn't|must|may|can|can't|could|couldn't"
    r"|have|haven't|has|had|will|won't|would|wouldn't) (?:i|we|you|u|it|he|she|they|the|this|that|these|those|there|an?|my|our|your"
    r"|anyone|someone|any|both|people|users)\b)"
)
_POLITE = lazy(
    r"\b(?:can|could|would|will) (?:you|we|u)\b(?: guys)?(?: please| kindly| maybe)?(?: (?:also|just|try to|mind))?[^?]{0,120}?"
    r"\b(?:not\b|never|only\b|always|avoid|make sure|ensure|keep\b(?! \w+ing)|stick to|refrain|leave\b[^?]{1,60}(?:alone|as is|untouched|unchanged)"
    r"|stop \w+ing|prefer|without \w+ing|instead of|rather than)\b"
)
_REPORTED = lazy(
    r"\b(?:says?|said|complain\w*|claim\w*|told me|tells me|mention\w*|states?|stated|warns?|warned|reads|insists|suggest\w*|recommend\w*"
    r"|according to|wondering|wonder|asks?|asked|heard|thought|assumed|guess|suppose|was (?:told|supposed)|were (?:told|supposed)"
    r"|used to|documented|apparently|supposedly|think|looks like|seems?|turns out|(?:checks|validates|verifies|tests|ensures|explains|describes|says) (?:that|whether|if|why|how))\b"
)
_FIRST_PERSON = lazy(
    r"\b(?:i|we)(?:'ve| have| already| just)?\s+(?:said|told you|asked you|mentioned|repeat|say|ask|insist|warned)|\bas i\b|\bi'?m telling|\bwhatever\b|\bno matter\b"
)
_TELLING = lazy(
    r"^(?:(?:so|and|but|ok|okay|hmm+|well|btw|also|yesterday|today|last (?:week|time|night|month)|earlier|previously|originally"
    r"|interesting\w*|strange\w*|weird\w*|unfortunately|apparently|for some reason|somehow|in my case|currently|honestly)[,:]?\s+){0,3}"
    r"(?:i|it|it's|he|she|they|there|that|this|that's|the|these|those|my|our|we|some|someone|nobody|somebody|users?|people"
    r"|customers?|both|sometimes|tests?|most|several|many|one of|looks like|seems|turns out|yesterday|last|when i|when we)\b"
)
_BUG = lazy(
    r"\bshould\b[^.?!]{1,80}(?:\b(?:but|yet|instead)\b|, however\b)[^.?!]{0,20}\b(?:it|is|are|it's|does|doesn't|do|don't|returns?|gives?|shows?|got|gets?|see|currently|now|they|i|throws?|fails?|crash\w*|prints?|nothing|no|none|never|was|were|did|didn't)\b|\bshould\b[^.?!]{0,60}\bnow[.!]?$"
)
_SUBORDINATE = lazy(
    r"(?<!it )(?<!only )(?<!me )(?<!first )(?<!especially )(?<!even )\b(?:if|because|since|whether|although|though|even though|even if|in case|so that|wondering|when|where|why|how)\b[^,;]{0,160}?(?=,|;|$)"
)
_ELLIPTIC = lazy(r"\b(?:and|but|or)\s*$")
_GATES: dict[str, list[int]] = {}
for _index, (_, _, _words, _) in enumerate(_ENGLISH):
    for _word in _words.split():
        _GATES.setdefault(_word.replace("_", " "), []).append(_index)
_GATE_ITEMS = tuple(_GATES.items())


@cache
def _row(index: int) -> tuple[Sort, float, re.Pattern[str], bool]:
    """A row, compiled when its gate first opens: most conversations open a few. The flag: in a report these
    are no commands unless they stand after a stop."""
    sort, strength, _, pattern = _ENGLISH[index]
    commands = (_START + "(?:do not", _START + "(?:absolutely", r"\bwithout\s+")
    return sort, strength, re.compile(pattern), pattern.startswith(commands)


def english(sentence: str) -> Verdict | None:
    """What an English sentence demands, if it demands anything."""
    text = sentence.lower().replace("’", "'")[:1500]
    asked = "?" in text[-3:] or _QUESTION.match(text) is not None
    if asked and not _POLITE.search(text):
        return _tagged(text)
    if _BUG.search(text) or small_talk(text):
        return None
    telling = _TELLING.match(text) is not None
    main = _SUBORDINATE.sub(lambda found: " " * len(found[0]), text)
    for index in sorted({row for word, rows in _GATE_ITEMS if word in main for row in rows}):
        sort, strength, pattern, command = _row(index)
        found = pattern.search(main)
        if found is None or _reported(main, found.start()):
            continue
        if telling and command and _runs_on(main, found):
            continue
        return Verdict(sort, _stressed(strength, sentence), found.start())
    return None


def _tagged(text: str) -> Verdict | None:
    """`Don't touch X, ok?` is no question."""
    tag = re.search(
        r"[,.!]\s*(?:ok|okay|please|alright|right|yes|got it|understood|deal|will you|thanks)\s*\?+$", text
    )
    return english(text[: tag.start()]) if tag and tag.start() > 5 else None


def _reported(text: str, at: int) -> bool:
    """Somebody else's words: `the linter says you must …`. One's own count: `as I said, never …`."""
    before = re.split(r"\b(?:but|so|still|however|anyway)\b|;|—", text[max(0, at - 120) : at])[-1]
    return _REPORTED.search(before) is not None and _FIRST_PERSON.search(before + text[at : at + 20]) is None


def _runs_on(text: str, found: re.Match[str]) -> bool:
    """In a report the verb after `and` or `but` belongs to the subject told of: `the tests run but don't
    cover it`. After a stop or a comma alone it is a command."""
    lead = found[0].lstrip(" ,;:(—–…!-.")
    if lead.startswith("please"):
        return False
    return found.start() > 0 and (
        lead.startswith(("and ", "but ", "or ", "without")) or bool(_ELLIPTIC.search(text[: found.start()]))
    )


def _stressed(strength: float, sentence: str) -> float:
    """Capitals and exclamation marks say that it matters."""
    loud = (
        re.search(r"\b(?:NEVER|ALWAYS|MUST|NOT|ONLY|IMPORTANT|DO NOT|CRITICAL)\b", sentence)
        or "!" in sentence[-3:]
    )
    return min(1.0, strength + 0.05) if loud else strength
