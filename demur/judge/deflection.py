"""Whether a reply declines to answer, by its wording (English).

A reply is read clause by clause. A clause may *decline* (the speaker cannot or will not answer), *blame* (the evidence
does not say), *doubt* ("I'm not sure"), *offer* (a guess is coming: "it might be", "my best guess"), *describe* (what
the evidence or the picture shows), or *assert*. What is quoted is not read: a sign that says "no data" declines
nothing. Two rules follow from published mistakes (a phrase list fires inside real answers): a doubt followed by an
answer is an answer, and a phrase counts only where the speaker, the question or the evidence is its subject.

How often this is right is measured, not claimed: ``python -m demur.judge.rules --score FILE``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from demur.answers import normalise


class Reading(NamedTuple):
    """What a reply does, and the words that show it."""

    deflects: bool
    cue: str


_EVIDENCE = (
    r"(?:(?:any|none|some|all|either|neither|nothing)\s+(?:of|in)\s+)?(?:the|this|these|those|your|any|my|its|that)?\s*"
    r"(?:(?:provided|given|available|supplied|retrieved|attached|accompanying|presented|shown|above|relevant|current|"
    r"supporting|text|textual|visual|search|first|second|two|three|input|reference)\s+){0,3}"
    r"(?:context|contexts|passages?|documents?|evidence|text|texts|information|info|images?|pictures?|photos?|photographs?|"
    r"sources?|articles?|excerpts?|snippets?|materials?|results?|captions?|paragraphs?|data|details|references?|quotes?|"
    r"descriptions?|figures?|tables?|page|pages|content|question)"
)
_KNOWING = (
    r"(?:answer(?!ing the door)|determine|identify|tell|say|provide|give|confirm|verify|find|see|locate|infer|know|name|state|"
    r"recogni[sz]e|assist|help|specify|establish|offer|make out|ascertain|conclude|deduce|be (?:sure|certain|determined)|"
    r"pinpoint|comment|respond|speculate|guess|figure out|work out|read|view|access|do that|discern|reliably|definitively|accurately|"
    r"directly|confidently|with (?:any )?(?:certainty|confidence)|really|truthfully|responsibly|process|share|make a determination)"
)
_NOT = r"(?:can(?:no|')?t|cannot|can not|could(?:n't| not)|am not able|'m not able|are not able|was not able|were not able|wasn't able|weren't able|am unable|'m unable|are unable|was unable|were unable|unable|not able)"
_SAYING = (
    r"(?:mention|contain|provide|include|specify|state|say|give|list|identify|indicate|show|address|cover|have|support|"
    r"discuss|reveal|tell|offer|describe|name|help|allow|explain|refer|report|answer|disclose|appear|seem|make|clarify|hold|present|"
    r"match|relate|suffice|note|record|detail|depict|point|talk|touch)"
)
_DECLINES = [
    rf"\b(?:i|we)(?:'m| am| are|'re)?\s+(?:really |simply |just |honestly |currently |therefore |also |still |sorry,? (?:but )?(?:i |we )?)*{_NOT}(?:\s+(?:to|even|really|possibly|reliably|definitively|confidently|accurately|safely|at present|fully|directly|with (?:any )?(?:certainty|confidence)))*\s+{_KNOWING}",
    rf"^\W*(?:sorry,?\s+(?:but\s+)?|unfortunately,?\s+|apologies,?\s+(?:but\s+)?)?{_NOT}(?:\s+(?:to|reliably|really))*\s+{_KNOWING}",
    r"^\W*(?:sorry|apologies|unfortunately|regrettably)?,?\s*(?:no|none)\s*[-,]?\s*can(?:'t| not|not)\s+(?:do|say|tell|help)",
    r"\b(?:cannot|can't|can not|could not|couldn't|can neither)\s+(?:be\s+)?(?:\w+ly\s+|currently\s+)?(?:be\s+)?(?:determined|answered|identified|inferred|established|verified|confirmed|known|ascertained|derived|deduced|provided|given|stated|found|concluded|named|read off|told|resolved|settled|drawn|said|seen|judged|specified|worked out|calculated|computed|located|assessed|recogni[sz]ed|matched|traced|estimated)\b",
    r"\b(?:is|it's|was|be|seems|remains|appears)\s+(?:simply |just |therefore |thus |not actually )?(?:im|not )possible\s+(?:for me |here |from (?:this|the) \w+ )?to\s+(?:\w+ly\s+)?(?:answer|determine|identify|tell|say|know|name|give|establish|verify|confirm|state|infer|be sure|conclude|pin)",
    r"\b(?:un|not )answerable\b|\bno answer (?:can|could) be\b|\bunable to (?:be )?(?:answer|determine)",
    r"\bthere(?:'s| is| was) no (?:way|means|basis) (?:to|for|of) (?:\w+ )?(?:know|tell|say|answer|determin|identif|me)",
    r"\b(?:i|we)\s+(?:really |honestly |simply |just |truly |do )*(?:do not|don't|did not|didn't|wouldn't|would not)\s+(?:really |actually |currently |even )?(?:know|have (?:any |the )?(?:answer|idea|clue|enough|sufficient|adequate|information|info|access|knowledge|data|details|specific|relevant|necessary|reliable|ability)|see (?:any|enough|the answer|anything)|find (?:any|enough|the answer|anything)|recogni[sz]e|feel (?:comfortable|confident) (?:answering|identifying|giving|saying)|possess|want to (?:guess|speculate))",
    r"^\W*(?:sorry,?\s*)?(?:do not|don't|dunno)\b(?:\s+(?:really\s+)?(?:know|have))?",
    r"\b(?:i|we)\s+(?:have|had|'ve got|have got)\s+(?:absolutely )?(?:no|insufficient|too little|not enough|not been given|nothing)\s*(?:idea|clue|information|info|knowledge|way|data|access|evidence|reliable|basis|context|means|record|here|to go on|enough|the)?",
    r"\b(?:no idea|no clue|beats me|your guess is as good|idk)\b",
    r"\b(?:i|we)(?:'d| would| must| have to|'ll| will| need to|'m going to)?\s+(?:rather not|prefer not|respectfully |politely )?(?:decline|refrain|abstain|pass on|skip|defer|withhold|not (?:answer|guess|speculate|provide))",
    r"\b(?:i|we)(?:'d| would)?\s+(?:rather not|prefer not to)\b|\b(?:i|we) (?:won't|will not|refuse to|choose not to|am choosing not to|shall not) (?:answer|guess|speculate|provide|identify|name|attempt|be able|make)",
    r"\b(?:as|being|i am|i'm) an? (?:ai|language model|assistant|text-based|vision)\b[^.]*\b(?:cannot|can't|not able|unable|do not|don't)",
    r"\b(?:i|we)(?:'d| would|'ll| will)? (?:need|require) (?:more|additional|further|some|a clearer|another|extra|the|better)\b",
    r"\b(?:could|can|would) you (?:please |kindly |perhaps )?(?:provide|share|give|clarify|supply|upload|send|tell me more)\b|^\W*please (?:provide|share|clarify|supply|upload|send|give)\b",
    r"\b(?:would|will) (?:be|have to be|only be) (?:pure |a )?(?:guess|guessing|speculation|speculating|speculative|guesswork|made up)\b|\bwould be a (?:pure |mere |wild )?guess\b",
    r"\bnot something (?:i|we) (?:can|could)\b|\bbeyond (?:my|what i)\b|\boutside (?:of )?(?:my|what i)\b",
    r"\b(?:i|we)(?:'m| am) (?:afraid|sorry)[^.]*\b(?:cannot|can't|unable|not able|do not|don't|not|no|isn't)\b",
    r"\bno (?:definitive|definite|reliable|conclusive|clear|certain|confident|direct) (?:answer|conclusion|identification|response)\b",
    r"\banswer (?:is|remains|stays)?\s*(?:not (?:known|available|given|found|stated|present|in)|unknown|unavailable|unclear|undetermined|indeterminate|missing|nowhere|absent)\b",
    r"\b(?:one|you|nobody|no one|anyone)\s+(?:cannot|can't|can not|could not|couldn't|can)\s+(?:\w+ly\s+)?(?:tell|say|determine|know|conclude|infer|establish|be sure)\b(?! (?:that|it) (?:is|was))",
    r"\b(?:i|we) lack\b|\bnot something (?:i|we)\b|\b(?:i|we) (?:have|'ve|was|were|am|are)(?: not|n't) (?:yet )?(?:been )?(?:given|told|shown|provided|supplied|found|seen|come across|aware|in a position|familiar|qualified)\b",
    r"\b(?:no|not any|without any|without a|cannot draw any|can't draw any) (?:\w+ )?(?:conclusion|determination|inference|judge?ment)s?\b(?: (?:can|could|is|may|about|from)|\W*$)",
    r"\b(?:can|could|would|will) you (?:please |kindly |perhaps )?(?:tell|specify|name|describe|point|explain|let me|identify)\b",
    r"\bif you (?:can|could|would|were to|are able to|have)\b[^.]*\b(?:i|we)(?:'d| would| could| can| will|'ll| might| may)\b",
    r"\b(?:before|until|unless) (?:i|we|you|more|further|the) (?:can |could |could name|have |know |see |get |is )?[^.]*\b(?:answer|say|tell|determine|identify|provided|name)\b",
    r"\b(?:i|we) (?:only|merely|just) (?:see|have|find|know|got)\b[^.]*\b(?:not|nothing|no)\b",
    r"\b(?:inconclusive|too (?:blurry|vague|small|dark|general|ambiguous|unclear|little|limited))\b",
    r"\bcouldn't say\b|\bcan(?:'t|not) tell\W*$|\bnot for me to say\b|\bmust remain (?:open|unanswered)\b|\b(?:remains?|stays?|left|goes) (?:unanswered|open|unresolved|unsettled)\b",
    r"\bthe question (?:cannot|can't|is not|isn't|can not|must (?:remain|stay|go)|remains|stays|goes) (?:be answered|answerable|un ?answered|open)",
    r"\bleave (?:it|this|the question) (?:open|unanswered|blank)\b|\bhave to pass\b|\bmust pass\b",
]  # fmt: skip
_BLAMES = [
    rf"\b{_EVIDENCE}(?:\s+(?:provided|given|supplied|here|above|shown|you (?:gave|provided|shared)|i (?:have|was given|received)|in front of me|retrieved|available|alone|itself|at hand|that (?:was|were|is|are) (?:given|provided|retrieved|shown)))*\s*,?\s*(?:(?:itself|themselves|alone|also|actually|simply|unfortunately|however|clearly|really|just|explicitly|only)\s+)*(?:does not|do not|doesn't|don't|did not|didn't|cannot|can't|never|fails? to|is not able to|lacks?|omits?|is silent|are silent|says? nothing|gives? no|contains? no|provides? no|makes? no|offers? no|includes? no|has no|have no|mentions? no|shows? no|(?:isn't|is not|are not|aren't)(?=\s+(?:\w+ly\s+)?(?:sufficient|enough|clear|detailed|helpful|relevant|related|about|available|adequate|specific|useful|able|conclusive|of (?:any )?(?:use|help)))|is insufficient|are insufficient|is too|are too|remains? silent|is missing|are missing|is lacking|are unrelated|is unrelated|is irrelevant|are irrelevant|concerns? something else|is about something else)\b(?:\s+(?:\w+ly\s+)?(?:{_SAYING}|sufficient|enough|clear|detailed|helpful|relevant|related|provided|available|given|present|adequate|specific|useful|about|high)\b)?",
    rf"\b(?:no|none|nothing|neither|not (?:one|any|a single one))\s+(?:of|in|from)\s+{_EVIDENCE}[^.]*?\b(?:{_SAYING}s?|{_SAYING}ed|answers?|about|says|states|relevant|related|tells?|gives?|help(?:s|ful)?|mentions?|identifies|specifies|carries|indicates|suggests|points?)\b",
    r"\b(?:neither|no)\s+(?:the\s+)?(?:passage|document|source|context|image|text|article|excerpt|snippet|caption)s?(?:\s+(?:nor|or)\s+(?:the\s+)?\w+)?\s+(?:mentions?|provides?|gives?|states?|contains?|answers?|says?|identif(?:y|ies)|specif(?:y|ies)|shows?|names?|includes?)",
    rf"\bnothing in {_EVIDENCE}",
    rf"\bnone of (?:this|these|those|them|it|which) (?:\w+ly )?{_SAYING}s?\b",
    rf"\b{_EVIDENCE}(?:\s+(?:i|we|you|that|which|at|on|in|here|above|below|from)\s+(?:\w+\s+){{1,5}}?)(?:says?|said|tells?|reveals?|mentions?|gives?|offers?|provides?|contains?|shows?)\s+(?:nothing|no|little|not)\b",
    rf"\b{_EVIDENCE}\b[^.]{{0,80}}?\b(?:and|yet|but|or)\s+(?:do(?:es)? not|do(?:es)?n't|never|fails? to|says? nothing|gives? no|makes? no|offers? no)\s*(?:{_SAYING})?\b",
    rf"\b{_EVIDENCE} (?:(?:is|are|was|were|stays?|remains?|falls?|runs?|keeps?) (?:all |entirely |completely |largely |quite )?(?:silent|mute|quiet|inconclusive|contradictory|off topic|off-topic|unhelpful|no help|of no help|cut off|incomplete|limited)|ends? before|breaks? off|stops? (?:short|before)|(?:is|are) (?:about|on) (?:a |an )?(?:different|another|other)|concerns? (?:a |an )?(?:different|another|other)|(?:contradict|disagree)s?\b)",
    rf"\b{_EVIDENCE}\b[^.]{{0,60}}\bnot (?:the|a|an|on|about|how|when|who|which|what|where|why|its|his|her|their)\b(?=[^.]*$)",
    r"\bthere(?:'s| is| are|'re| was| were|\s+seems to be| appears to be)?(?: simply| just| really)?\s*(?:isn't|aren't|wasn't|weren't| not|no|nothing|not enough|n't)\s+(?:any |a |enough |sufficient |adequate |anything )?(?:[a-z]+ )?(?:detail|information|info|context|evidence|data|mention|indication|clue|hint|reference|record|explanation|anything|here|there|about|in (?:the|these|any)|that (?:says|tells))",
    r"\b(?:is|are|was|were)(?: not|n't)(?: \w+ly| actually| simply)? (?:given|stated|specified|mentioned|provided|included|disclosed|indicated|recorded|documented|reported|spelled out|told|described|named|shown|listed|covered|addressed|discussed)(?: (?:here|there|anywhere|at all|either|in|by|on|within|among)\b|\W*$)",
    r"\b(?:simply |just )?(?:is|are)(?:n't| not) (?:there|here|in (?:the|it|them|any|there))\W*$|\bnot (?:there|here)\W*$",
    r"\bno (?:mention|indication|record|trace|sign|account|word|details?|discussion|description) (?:is|are|was|were|of|on|about|as to|whatsoever|anywhere|made|given)\b",
    r"\b(?:not enough|insufficient|inadequate|too little|lack of|no|not any|not sufficient|a lack of|limited)\s+(?:relevant |specific |direct |further |clear |explicit |such |reliable |usable |supporting |background |contextual |visual |available |concrete )*(?:information|info|context|evidence|data|detail|details|mention|reference|indication|knowledge)\b(?:\s+(?:(?:is|are|was|were)\s+(?:\w+\s+)?(?:provided|available|given|found|present|included|supplied|shown|offered|mentioned|stated|contained|here|in)|to|about|on|in|regarding|for|of|provided|available|given|here|that|whether|concerning|from|as|which|at|i)\b|\W*$)",
    r"\b(?:is|are|was|were|it's|isn't|aren't|wasn't|been|being|also|and|but|answer|^)\s*(?:not|nowhere|never)?\s*(?:directly |explicitly |actually |currently |specifically |clearly )?(?:mentioned|specified|stated|provided|given|available|found|included|listed|disclosed|present|indicated|shown|identified|addressed|covered|described|discussed|named|visible|clear|evident)\s+(?:anywhere |explicitly |directly )?(?:in|by|from|within|on|here|among|to me|based on|enough|for me)\b",
    r"^\W*(?:not|nowhere|never) (?:directly |explicitly |actually |specifically |clearly |otherwise )?(?:mentioned|specified|stated|provided|given|available|found|included|listed|disclosed|present|indicated|shown|answered|identified|covered|enough|sufficient|in the|determinable)\b",
    r"\b(?:information|details?|answer|name|date|figure|number|year|value|it|this|that)\b[^.,;]{0,50}\b(?:is|are|was|were)(?:\s+(?:simply|just|unfortunately))?(?: not|n't)\s+(?:directly |explicitly |actually |currently |specifically |clearly )?(?:mentioned|specified|stated|provided|given|available|found|included|listed|disclosed|present|indicated|addressed|covered)\b",
    r"\b(?:remains|is|are|was|it's|stays|left)\s+(?:currently |still |simply |entirely |left )?(?:unclear|unknown|undetermined|unspecified|indeterminate|undisclosed|uncertain|not known|not clear)\b",
    r"\bunclear (?:from|what|which|who|how|whether|where|when|based)\b",
    rf"\b(?:based on|from|given|using|with|going by) {_EVIDENCE}[^.]*\b(?:unclear|not clear|not possible|impossible|cannot|can't|not sure|unknown|hard to (?:say|tell)|no way)\b",
    r"\b(?:hard|difficult|tough|tricky) (?:for me )?to (?:say|tell|determine|identify|know|answer|be sure)\b",
    rf"\b(?:i|we) (?:see|find|found|saw|could find|can find|have found|can see) (?:no|nothing)\b|\b(?:i|we) (?:looked|searched|checked|read|went)[^.]*\b(?:nothing|no mention|none|not|no)\b|\bnothing (?:here|there|i (?:have|was given|see|know))\b[^.]*|\b(?:am|are|is|was|were) missing (?:the )?(?:\\w+ )?(?:information|evidence|context|details?|facts?)\b|\b{_EVIDENCE} (?:only|merely|just|solely|mainly|mostly) (?:says?|states?|mentions?|discuss(?:es)?|describes?|covers?|talks?|shows?|tells?|gives?|provides?|deals?)\b",
]  # fmt: skip
_DOUBTS = [
    r"\b(?:i'm|i am|we're|we are|im)\s+(?:really |honestly |just |still |quite |simply |afraid i'm )?(?:not (?:really |entirely |quite |completely |fully |100 ?% |too |at all |totally )?(?:sure|certain|confident|positive|aware|familiar|convinced)|unsure|uncertain|unaware|in doubt|unfamiliar)\b",
    r"^\W*(?:not (?:really |entirely |quite |completely |100% |too |totally )?(?:sure|certain)|unsure|uncertain|hard to (?:say|tell)|difficult to (?:say|tell)|hmm+|who knows)\b",
    r"\bi can(?:not|'t) be (?:\w+ )?(?:sure|certain|positive)\b|\bi don't (?:think|believe) i (?:can|know)\b|\bi (?:doubt|wonder)\b|\bdon't quote me\b|\bi may be wrong\b|\bi might be wrong\b",
]  # fmt: skip
_OFFERS = [
    r"\b(?:my |a |the |an? )?(?:best|educated|rough|wild|first|informed|only) (?:guess|estimate|bet)\b(?! would be (?:pure|just|only))",
    r"\b(?:i'd|i would|i'll|i will|let me|i'm going to|if (?:pressed|forced|i had to(?: guess)?|pushed)[^.]*?i'd) (?:guess|say|bet|go with|estimate|pick|choose|lean|venture|wager|assume|hazard|suggest|put it|settle)\b",
    r"\bi (?:believe|think|suspect|guess|assume|reckon|recall|lean)\b(?! (?:i (?:can|know|need|would|don't)|(?:it|this|that)(?:'s| is| would be) (?:im|not )?possible|there (?:is|are)(?:n't| not| no)|the (?:question|context|passage|image)|we|more|it (?:cannot|can't)))",
    r"\b(?:it|this|that|he|she|they|the \w+(?: \w+){0,3}?)\s+(?:is|was|are|were|'s)?\s*(?:most |very |quite )?(?:likely|probably|presumably|possibly|perhaps|apparently)\b(?! (?:not |un|im|found|need|available|require|would be needed|best|beyond|covered|in (?:a|an|another|the) ))",
    r"^\W*(?:probably|perhaps|maybe|possibly|presumably|likely|most likely)\b(?! (?:not|you|i|the (?:question|answer is not|image is|context|passage)|un|someone|it (?:is|was) (?:not|un)))",
    r"\b(?:it|this|that|he|she|they|there|the \w+(?: \w+){0,2}?|answer) (?:might|may|could|would|should|must|appears to|seems to|looks to)(?: well| possibly| perhaps| probably| likely)? (?:be|have been|refer to|stand for|mean)\b(?! (?:missing|absent|irrelevant|unrelated|found|possible|able|needed|required|a guess|speculat|more|un|in(?:correct|accurate)?\b|anything|any|wrong|pure|guess|better|helpful|outside|different|one of (?:many|several)|risky|misleading|irresponsible|answered|necessary|best|determined|useful|inappropriate|dishonest|fabricat|made|inclined|happy|glad|several|many|various|hard|difficult|sure|beyond|out of|in a|an? (?:different|number|variety|fabrication|invention|mistake)))",
    r"\b(?:based on|from|going by|according to|drawing on|using|relying on) (?:my )?(?:own |general |background |prior |common |world |broader |outside )+(?:knowledge|memory|understanding|information)\b",
    r"\b(?:generally|commonly|widely|historically|typically) (?:known|believed|thought|said|considered|reported|accepted|credited|attributed|listed)\b(?! in)",
    r"\b(?:suggests?|indicates?|implies|implying|suggesting|hints?)\s+(?:that )?(?:it|this|the|a|an|he|she|they)\b(?![^.]*\b(?:cannot|can't|not (?:enough|clear|sure)|unclear|unknown)\b)",
    r"\bthe (?:correct |right |most likely |likely |probable )?answer (?:is|would be|should be|appears to be|seems to be|must be|might be|may be|could be)\b(?!\s*[:\-]?\W*(?:not|un|nowhere|missing|absent|in(?:determinate)|n/a|none|no\b|impossible|elsewhere|beyond|simply not))",
]  # fmt: skip
_DESCRIBES = [
    rf"^\W*(?:(?:based on|according to|in|from|given|looking at)\s+)?{_EVIDENCE}\b[^.]*\b(?:mentions?|discuss(?:es)?|describes?|shows?|talks?|refers?|provides?|states?|depicts?|contains?|lists?|focus(?:es)?|covers?|is about|are about|includes?|features?|gives?|concerns?|deals?|presents?|tells?|appears?|seems?|names?|introduces|explains?|compares?|reports?|notes?)\b",
    r"^\W*(?:it|they|these|this|both|one|each|the (?:first|second|other|third|last))\s+(?:of (?:them|these)\s+)?(?:only |merely |just |also |mainly |mostly |simply )*(?:mentions?|discuss(?:es)?|describes?|shows?|talks?|refers?|covers?|focus(?:es)?|concerns?|deals?|contains?|lists?|depicts?|are about|is about|tells?|gives?|provides?|relates?|says?)\b",
    r"\b(?:i can see|i see|while|although|even though|though|i can (?:describe|tell you|help|offer|say)|i'd be (?:happy|glad)|i would be (?:happy|glad)|let me know|feel free|if you|happy to help|hope this|you (?:may|might|could|can)|consult|please|consider|try|to (?:answer|determine|identify) (?:this|the|it)|for (?:that|this|an|a|accurate|reliable)|perhaps (?:you|another|a)|it (?:would|could|may|might) (?:help|be))\b",
    r"^\W*(?:sorry|i'm sorry|i am sorry|apologies|i apologi[sz]e|unfortunately|thank(?:s| you)|good question|great question|that's (?:a|an)|hello|hi|sure|certainly|of course|okay|ok|well|hmm+|interesting|regrettably|i understand|i appreciate|noted|this is a (?:good|tricky|hard|difficult|tough))\b[^.]{0,60}$",
    r"^\W*(?:therefore|thus|so|hence|as (?:a result|such)|in (?:summary|short|conclusion)|overall|consequently|without|since|because|given|only|apart|other than|besides|either way|at least|to be)\b",
]  # fmt: skip
_WHOLE = frozenset(
    [
        "unknown", "n a", "na", "none", "idk", "unsure", "not sure", "no answer", "undetermined", "not available", "not applicable",
        "no information", "unanswerable", "not answerable", "cannot answer", "can t answer", "unable to answer", "not attempted",
        "i don t know", "dont know", "don t know", "no idea", "pass", "skip", "unclear", "not specified", "not mentioned", "insufficient",
        "not enough information", "insufficient information", "insufficient evidence", "insufficient context", "insufficient data",
        "not provided", "not stated", "not given", "not found", "not in context", "not possible", "no comment", "null", "unspecified",
        "indeterminate", "cannot say", "can t say", "cannot tell", "can t tell", "cannot be determined", "no context", "unknowable",
        "abstain", "i abstain", "deflect", "no relevant information", "information not available", "answer not found", "not determinable",
        "cannot determine", "not known", "unavailable", "answer unknown", "who knows", "no clue", "cnbd", "i m sorry", "sorry", "i am sorry",
        "i can t help", "no data", "no data available", "not clear", "no evidence", "undisclosed", "no way to know", "i pass", "no response",
    ]
)  # fmt: skip


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{p})" for p in patterns), re.IGNORECASE)


_DECLINE, _BLAME, _DOUBT, _OFFER, _DESCRIBE = map(_any, (_DECLINES, _BLAMES, _DOUBTS, _OFFERS, _DESCRIBES))
_QUOTED = re.compile(
    "\"[^\"\n]{1,200}\"|\u201c[^\u201d\n]{1,200}\u201d|(?<![\\w])'[^'\n]{2,200}'(?![\\w])|\u2018[^\u2019\n]{1,200}\u2019|\\*[^*\n]{1,80}\\*(?!\\*)"
)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[^a-z\s])|\n+|\s*[;]\s*|\s+[-\u2013\u2014]\s+|\u2014")
_TURN = re.compile(
    r",?\s+(?:but|however|yet|nevertheless|nonetheless)\b,?\s*|,\s+(?:and )?(?:so|therefore|thus|hence|which means)\b,?\s*"
    r"|^\W*(?:but|however|yet|nevertheless|nonetheless|still|that said|even so|having said that)\b,?\s*",
    re.IGNORECASE,
)
_CONCEDING = re.compile(
    r"^\W*(?:even )?(?:though|although|while|whereas)\b[^,]{3,160},\s*(.+)", re.IGNORECASE | re.DOTALL
)
_SOURCE = re.compile(
    r"\b(?:context|passage|document|evidence|text|information|image|picture|photo|source|article|excerpt|snippet|material|"
    r"result|caption|paragraph|description|page|reference)s?\b",
    re.IGNORECASE,
)
_SOURCE_AT_START = re.compile(r"(?:(?:the|this|these|provided|given)\s+)*" + _SOURCE.pattern, re.IGNORECASE)
_PLACE = re.compile(
    r"\b(?:in|on|from|of|to|at|with|about|by|for)\s+(?:(?:the|this|these|that|a|my|your)\s+)?$", re.IGNORECASE
)
_PRONOUN_BLAMES = re.compile(
    rf"(?:^|[,\s])(?:it|they|these|this|those|which|that|the (?:first|second|third|other|last|former|latter|rest))\s+(?:\w+ly\s+|also\s+)?"
    rf"(?:do(?:es)?(?: not|n't)|did(?: not|n't)|never|nowhere)\s+(?:\w+ly\s+|even\s+|actually\s+)?{_SAYING}\b"
    rf"|\b(?:neither|none|nothing|no one)(?:\s+of\s+(?:them|these|those|which|this|that))?\s+(?:\w+ly\s+)?{_SAYING}s?\b"
    r"|^\W*not (?:the|how|when|who|which|what|where|why|its|his|her|their|whether)\b"
    rf"|\b(?:do|does|did)(?: not|n't)\s+(?:\w+ly\s+)?{_SAYING}\s+(?:its|who|what|when|where|which|how|why|whether|the exact|any)\b",
    re.IGNORECASE,
)
_VERIFY = re.compile(
    r"\b(?:verify|confirm|be (?:\w+ )?(?:sure|certain|positive)|prove|guarantee|100 ?%|double-check)\b", re.IGNORECASE
)
_STILL_NOT = re.compile(
    r"\b(?:i|we)\b.*(?:\bnot\b|n't\b|\bcannot\b|\bno\b|\bunable\b)|\bno answer\b|\b(?:left|leave) (?:out|it|open)\b|\bsorry\b",
    re.IGNORECASE,
)
_FILLERS = frozenset(
    "sorry honestly really though unfortunately to be honest i m am afraid about that this it from image context picture".split()
)
_CONCEDES = re.compile(r",?\s+(?:though|although|even though|albeit|while|despite)\b", re.I)
_MORE = re.compile(
    r"\b(?:other|others|further|additional|anything else|beyond that|more (?:detail|specific|precise|about)|exact|precise|why|the rest|how (?:it|this)|that fact|source for|independently|in more)\b",
    re.I,
)
_MARKED = re.compile(r"(?:^|\n|[.!?]\s)\W*(?:final answer|short answer|answer)\W*[:=]\W*(.+)", re.I | re.S)


def read(text: str) -> Reading:
    """Whether a reply declines to answer.

    Args:
        text: the reply, without hidden reasoning. Untrusted; read as text only.

    Returns:
        ``deflects`` and the words that decided (of an answer that hedges: "" or the words that offer it).

    >>> read("I'm sorry, but the passages do not mention when the bridge opened.").deflects
    True
    >>> read("I'm not certain, but it is probably Lake Como.").deflects
    False
    >>> read('The display reads "no data".').deflects
    False
    """
    text = text.replace("\u2019", "'").replace("\u02bc", "'").strip()
    marked = list(_MARKED.finditer(text))
    if marked and normalise(marked[-1][1]):
        inner = read(marked[-1][1])
        return inner if inner.deflects or len(marked[-1][1].split()) <= 60 else Reading(False, "")
    bare = normalise(re.sub(r"['\u2019]", " ", text))
    if bare in _WHOLE:
        return Reading(True, bare)
    plain = _QUOTED.sub(" _ ", text)
    if not normalise(plain.replace("_", "")):
        plain = text.strip("\"'*\u201c\u201d ")
    talks_of_evidence = bool(_SOURCE.search(plain))
    standing = Reading(False, "")  # what the clauses so far come to
    answered = terse = False
    for clause, turned in _clauses(plain):
        kind, cue = _kind(clause, talks_of_evidence)
        if kind == "assert" and standing.deflects and _STILL_NOT.search(clause):
            continue  # "..., so I can't describe it"
        if kind == "offer" or (kind == "assert" and (turned or not standing.deflects or standing.cue == "doubt")):
            standing, answered, terse = Reading(False, cue if kind == "offer" else ""), True, len(clause.split()) <= 3
        elif kind in ("decline", "blame", "doubt"):
            # "300 m. The text gives no other details." / "It is Oslo, but I cannot verify it."
            brief = answered and kind == "decline" and not turned and terse
            more = _MORE.search(clause) and not (turned and kind == "decline")
            aside = answered and (brief or more or _VERIFY.search(clause) or (kind != "decline" and not turned))
            if not aside:
                standing, answered = Reading(True, "doubt" if kind == "doubt" else cue), False
    return standing


def _clauses(text: str) -> list[tuple[str, bool]]:
    """Clauses in order, each with whether it turns against what went before ("but ...", "..., so ...")."""
    out: list[tuple[str, bool]] = []
    for sentence in _SENTENCE.split(text):
        if not normalise(sentence):
            continue
        turned, rest = False, sentence
        while found := _TURN.search(rest):
            if normalise(rest[: found.start()]):
                out += _conceding(rest[: found.start()], turned)
            turned, rest = True, rest[found.end() :]
        if normalise(rest):
            out += _conceding(rest, turned)
    return out


def _conceding(clause: str, turned: bool) -> list[tuple[str, bool]]:
    """A clause without its concession: "though the text does not say so" is no verdict of its own."""
    opening = _CONCEDING.match(clause)
    if opening and normalise(opening[1]):
        return [(opening[1], True)]
    later = _CONCEDES.search(clause)
    if later and later.start() > 0 and _kind(clause[: later.start()], False)[0] in ("assert", "offer"):
        return [(clause[: later.start()], turned)]
    doubt = _DOUBT.match(clause)
    after = clause[doubt.end() :] if doubt else ""
    if doubt and re.match(r"\s*[,:?]", after) and set(normalise(after).split()) - _FILLERS:
        return [(clause[: doubt.end()], turned), (after, True)]
    return [(clause, turned)]


def _kind(clause: str, talks_of_evidence: bool) -> tuple[str, str]:
    for kind, pattern in (("offer", _OFFER), ("decline", _DECLINE), ("blame", _BLAME), ("doubt", _DOUBT)):
        found = pattern.search(clause)
        while (
            found
            and kind == "blame"
            and _PLACE.search(clause[: found.start()])
            and _SOURCE_AT_START.match(found.group())
        ):
            # "the dog in the picture cannot see": the evidence is where, not who
            found = pattern.search(clause, clause.find(" ", found.start()) + 1 or len(clause))
        if found:
            return kind, found.group().strip()
    if talks_of_evidence and (found := _PRONOUN_BLAMES.search(clause)):
        return "blame", found.group().strip()
    if _DESCRIBE.search(clause):
        return "describe", ""
    return "assert", ""
