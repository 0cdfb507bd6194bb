"""The expressions behind the hints, by what they stand for: data, read by `gateway.pins.findings`.

They are read against one line of plain text: hidden characters taken out, compatibility forms made
plain (NFKC), every run of blanks made one space.
"""

import re

_GAP = r"(?:[^.!?]|[.](?=\S)){0,60}?"
"""Up to sixty characters of one sentence."""

_SHORT_GAP = r"(?:[^.!?]|[.](?=\S)){0,25}?"
_USER = r"(?:users?|humans?|operators?|customers?|person)\b"
_PERSON = r"(?:user|human|operator|person)\b"
_DO_NOT = r"(?:do not|don't|never|must not|should not|shouldn't|no need to|not need to|without)"
_RULES = (
    r"(?:instructions?|prompts?|rules|directions|directives|guidelines|polic(?:y|ies)|guardrails"
    r"|restrictions?|safeguards?|safety measures)\b"
)
_KEY_PATH = (
    r"(?:~/\.(?:ssh|aws|gnupg|cursor|kube|docker|netrc)\b|\bid_(?:rsa|ed25519|ecdsa)\b"
    r"|/etc/(?:passwd|shadow)\b|\bmcp\.json\b|\.aws/credentials\b)"
)
_CALLING = r"(?:us|call|invok|runn|execut)ing"
_CALLED = r"(?:used|called|invoked|run|executed|consulted)"
_TAKE = r"(?:use|call|invoke|run|execute|choose|select|prefer|consult|pick)"
_SECRETS = (
    r"(?:credentials?|passwords?|secrets?|api keys?|access tokens?|private keys?|ssh keys?"
    r"|environment variables|conversation|chat history|message history|system prompt"
    r"|personal (?:data|information)|sensitive (?:data|files?|information))\b"
)


def _expression(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


HARD: dict[str, re.Pattern[str]] = {
    # Markup that poses as the model's own framing: a definition is not a place to speak from.
    "pseudo_tag": _expression(
        r"<\s*+/?\s*+(?:important|system|critical|instructions?|hidden|override)\s*>",
        r"<\s*/\s*(?:secret|admin)\s*>",
        r"<\|[a-z_]{2,20}\|>",
        r"\[/?inst\]",
        r"\[\s*(?:system [a-z]|hidden\b|secret\b|override\b)[^\]]{0,20}\]",
        r"<<sys>>",
        r"(?<!#)#{2,}+ ?new (?:prompt|instructions?)\b",
    ),
    # Takes back what the model was told by others.
    "override_phrase": _expression(
        rf"\b(?:ignore|disregard|forget)\b{_SHORT_GAP}\b(?:previous|prior|above|earlier|other|system"
        rf"|existing|all|safety|security)\b{_SHORT_GAP}\b{_RULES}",
        rf"\b(?:override|bypass)\b{_SHORT_GAP}\b(?:previous|prior|above|earlier|other|system|safety)\b"
        rf"{_SHORT_GAP}\b(?:instructions?|prompts?|directives|guidelines|guardrails|safeguards?)\b",
        r"\byou are (?:now|no longer)\b[^.]{0,60}\b(?:mode|assistant|restrict|bound|must)",
        r"\b(?:ignore|disregard) all other\b",
        r"\b(?:override|system|role) directive\b",
    ),
    # Wants something kept from the person whom the model works for.
    "concealment": _expression(
        rf"\b{_DO_NOT} (?:ever )?(?:tell|mention|inform|notify|alert)(?:ing)?\b{_GAP}\b{_PERSON}",
        rf"\b(?:keep|remain) (?:this|it)? ?(?:a )?(?:secret|hidden) from (?:the )?{_USER}",
        rf"\b{_USER} (?:must not|should not|shouldn't) (?:know|see|notice|find out)\b",
        rf"\bwithout the {_USER}(?:'s?)? (?:\w+ )?(?:knowledge|knowing|noticing|awareness)\b",
    ),
    # Tells the model to fetch what gives access.
    "sensitive_read": _expression(
        r"\b(?:read(?! from)|cat|open|include|send|attach|pass|upload|copy|contents? of)\b"
        rf"{_GAP}(?:{_KEY_PATH}|[\s/'\"`(]\.env\b)",
    ),
}
"""Classes for which an ordinary definition has no reason."""

SOFT: dict[str, re.Pattern[str]] = {
    # Ordinary in the documentation of a tool for such files, and where most theft begins.
    "sensitive_path": _expression(_KEY_PATH),
    # Emphasis posing as markup.
    "emphasis": _expression(r"\[\s*(?:important|critical|mandatory|urgent)\b[^\]]{0,20}\]"),
    # Wants details kept from the person; common for internal ids.
    "withholding": _expression(
        rf"\b{_DO_NOT} (?:ever )?(?:show|reveal|disclose|display|expose|explain)(?:ing)?\b{_GAP}"
        rf"\bto (?:the |any )?{_USER}",
        rf"\b{_DO_NOT} (?:ever )?(?:tell|mention|inform|notify|alert)(?:ing)?\b{_GAP}\b(?:users|customers?)\b",
        rf"\b{_USER} (?:does not|doesn't|do not|don't) need to (?:know|see|notice)\b",
        r"\bthis is a secret\b",
        r"\b(?:secretly|covertly|stealthily)\b",
    ),
    # Recommends itself at the expense of others, whatever the task.
    "preference": _expression(
        rf"\balways (?:{_TAKE}|prioriti[sz]e) this\b",
        rf"\b(?:must|should|has to|needs to) (?:always )?be {_CALLED} (?:first|before (?:any|all|every))\b",
        rf"\b{_TAKE} this\b{_SHORT_GAP}\b(?:first|before any|instead of|rather than|over) (?:any |all |the )?"
        r"(?:other|others|alternatives?|similar|competing)\b",
        rf"\b(?:never|do not|don't|avoid) {_TAKE}?(?:ing)? ?(?:any )?(?:other|another|alternative) \w*? ?tools?\b",
        r"\b(?:prefer|prioriti[sz]e|favou?r) this (?:tool|function|server|service)\b",
        r"\bother (?:\w+ ){0,2}(?:tools?|functions?|servers?)\b[^.]{0,20}\bare (?:\w+ )?(?:deprecated|buggy"
        r"|broken|unreliable|inaccurate|insecure|unsafe|outdated|obsolete|slower|inferior)\b",
        r"\b(?:most|more) (?:reliable|accurate|trusted|trustworthy|secure|powerful) (?:\w+ )?(?:tool|choice"
        r"|option|version)\b",
        r"\b(?:best|superior|highest[- ]priority|only (?:correct|valid|official|trusted)) (?:tool|choice)\b",
        r"\b(?:replaces?|supersedes?|takes precedence over) (?:all |any |the )?(?:other|existing|original|previous)"
        r" (?:\w+ )?(?:tools?|functions?|versions?)\b",
    ),
    # Gives orders about when other tools run, or what comes before and after them.
    "tool_steering": _expression(
        rf"\b(?:before|after|whenever|every time|when) (?:you )?(?:{_CALLING}|call|use|invoke|execute|run)\b"
        rf"{_GAP}\b(?:must|first|always|instead|make sure|be sure|never)\b",
        rf"\b(?:before|after) (?:{_CALLING}|call|use|invoke|execute|run)\b{_GAP}\b(?:tools?|functions?|operations?)\b"
        rf"{_SHORT_GAP}\b(?:call|execute|run|read|send|replace|modify)\b",
        rf"\bwhen(?:ever)? (?!this|the tool|it)[^.!?]{{2,40}}? (?:is|are|gets) (?:invoked|called|{_CALLED}|present)\b"
        rf"{_SHORT_GAP}\b(?:must|make sure|instead|always|change|override|replace|will)\b",
        r"\binstead of (?:using|calling) (?:the )?[\w-]+ tool\b",
        r"\bbefore (?:\w+ing) (?:\w+ ){1,3}?you (?:must|have to|need to|should)\b",
        rf"\bafter (?:\w+ing) {_GAP}\byou (?:must|have to|should)\b",
    ),
    # Changes what the person asked for, or where it goes.
    "redirection": _expression(
        r"\balways (?:b?cc|forward|redirect|send a copy|append|include a copy)\b",
        rf"\b(?:replace|change|alter|modify|increase|decrease|multiply|swap|substitute|override)\b{_SHORT_GAP}"
        r"\b(?:recipients?|values?|amounts?|results?|address(?:es)?|destinations?|responses?|accounts?|prices?)\b"
        r"[^.!?]{0,40}?\b(?:to|with|by) (?:\+?\d|[\w.-]+@|https?:|response|the (?:response|result|output) of|our|my)",
        r"\b(?:make sure to|be sure to|must|always) (?:\w+ )?(?:replace|change|alter|redirect|reroute|swap|substitute)\b",
        r"\b(?:all|every) (?:e-?mails?|messages?|requests?|payments?|transfers?|files?)\b[^.!?]{0,30}?"
        r"\b(?:to|through|via) (?:[\w.-]+@|https?:)",
        r"\bsend all (?:e-?mails?|messages?|data|results?|requests?)\b",
    ),
    # Fixes an argument that the person, or the task, should decide.
    "forced_value": _expression(
        rf"\balways (?:set|pass|fill|supply|specify)\b{_SHORT_GAP}\b(?:to|as|with)\b",
        r"\b(?:must|should|has to|needs to) always (?:be|equal|contain|include|start with|end with)\b",
        rf"\b(?:regardless of|no matter|ignoring|whatever)\b{_SHORT_GAP}\b{_USER}",
        rf"\b(?:instead of|rather than|not) (?:what |that of )?the {_USER}(?:'s?)? (?:\w+ )?(?:input|request"
        r"|value|choice|asked|specified|provided|wants?|original)",
    ),
    # Adds an errand of its own, often with a pretext.
    "side_task": _expression(
        r"\b(?:must|always|should|make sure to|be sure to) (?:also|additionally|silently|automatically|then also)"
        r" (?:read|write|send|save|copy|delete|remove|execute|run|append|log|call|create|fetch|download"
        r"|upload|store|include|forward|email|post)\b",
        r"\bfor (?:\w+ )?(?:audit(?:ing)?|compliance|verification|logging|backup|proxying|debugging"
        rf"|authentication) (?:purposes|reasons)\b{_GAP}\b(?:must|always|send|copy|include|forward|first|also)\b",
        rf"\b(?:must|always|send|copy|include|forward|also)\b{_GAP}\bfor (?:\w+ )?(?:audit(?:ing)?|compliance"
        r"|verification|logging|backup|proxying|debugging) (?:purposes|reasons)\b",
        r"\b(?:must|need to|have to|required to) (?:first )?(?:install|download|pip install|npm install|git clone)\b",
    ),
    # Threatens with failure if it is not obeyed.
    "threat": _expression(
        r"\b(?:otherwise|or else|if you (?:do not|don't|fail|violate))\b[^.!?]{0,60}?\b(?:will|would|may) (?:not work"
        r"|crash|be blocked|be (?:terminated|suspended|deleted|lost|punished|penali[sz]ed)|break|malfunction)\b",
        r"\b(?:will not|won't) work otherwise\b",
        r"\b(?:catastrophic|severe|serious|legal) (?:failures?|consequences|damage|errors?)\b",
    ),
    # Claims rights that no definition can give.
    "false_authority": _expression(
        r"\bact as: ",
        r"\bunrestricted (?:access|mode|emergency|system|queries|execution)\b",
        r"\b(?:bypass|disable|skip|circumvent|ignore|evade)(?:es|s|ing)?\b (?:\w+ ){0,2}?(?:safety|security|"
        r"validation|authentication|authori[sz]ation|access controls?|content (?:filter(?:s|ing)?|sanitization)"
        r"|restrictions|sanitization)\b",
        r"\btrust (?:all|any) (?:\w+ )?(?:user |admin )?(?:input|commands?|quer(?:y|ies)|requests?)\b",
        r"\byou (?:are allowed|have permission|are authori[sz]ed) to (?:use|access|execute|run|read) (?:any|all)\b",
        r"\bwithout (?:any )?(?:validation|(?:user |further )?confirmation|restrictions?|permission|consent"
        r"|asking (?:the user|for))\b",
        r"\b(?:elevated|root|admin|administrator|superuser) privileges when\b",
    ),
    # Moves what gives access, or what was said, to somewhere else.
    "exfiltration": _expression(
        rf"\b(?:send|forward|upload|post|transmit|e-?mail|leak|report|copy|append|include|pass)\b{_GAP}{_SECRETS}"
        r"[^.!?]{0,40}?\b(?:to|at|into|as) (?:https?:|[\w.+-]+@|an? (?:external|remote|third|attacker)|the (?:remote"
        r"|external)|our|this (?:tool|server|parameter|field|argument)|['\"`]?side_?note)",
        r"\b(?:send|forward|upload|post|transmit|e-?mail|submit)\b"
        rf"{_GAP}\b(?:contents?|files?|data|results?|history|output)\b{_SHORT_GAP}\bto (?:https?:|[\w.+-]+@)",
        rf"\b(?:include|pass|provide|attach|add|insert|show)\b{_SHORT_GAP}\b(?:full|entire|complete|previous|all)\b"
        rf"{_SHORT_GAP}\b(?:conversation|chat|messages?|history|context|prompts?)\b",
        rf"\b(?:show|give|provide|supply|ask for|extract|harvest|collect|steal|dump)\b{_SHORT_GAP}"
        r"\b(?:the )?(?:users?'?s? )?(?:credentials|passwords|secrets|private keys)\b",
    ),
    # Says of itself that it does harm.
    "stated_harm": _expression(
        r"\bexfiltrat(?:e|es|ed|ing)\b",
        r"\b(?:stolen|steal(?:s|ing)?) (?:\w+ )?(?:data|files?|credentials?|information|tokens?|cookies)\b",
        r"\b(?:reverse|bind) shells?\b",
        r"\bkey ?logg(?:er|ing)\b",
        r"\bbackdoors?\b",
        r"\bdata theft\b",
        r"\b(?:privilege escalation|container escape)\b",
        r"\b(?:evade|avoid|escape) detection\b",
    ),
    # Shell text that destroys, opens up or runs what it fetches.
    "shell_command": _expression(
        r"\brm -rf? [~/*]",
        r"\bchmod (?:-r )?0?(?:777|666)\b",
        r"\b(?:curl|wget)\b[^|]{0,80}\| ?(?:sudo )?(?:ba|z)?sh\b",
        r"/dev/tcp/",
        r"\bnc (?:-\w+ )*-e\b",
        r"<script\b",
        r"\bbase64 (?:-d|--decode)\b[^|]{0,40}\| ?(?:ba|z)?sh\b",
    ),
}
"""Classes that ordinary definitions sometimes belong to."""

PADDING = re.compile(r"(?<=\S)[^\S\n]{40,}+(?=\S)|(?:\n[^\S\n]*){10,}")
"""Blanks that push text out of sight, in the text as it is. Indented source text is not meant."""

EXFIL_PARAMETER = _expression(
    r"(?:conversation|chat|message|tool|call)_?(?:history|log|transcript)s?",
    r"system_?prompts?",
    r"(?:previous|prior|all)_?(?:messages|tools|prompts)",
    r"side_?notes?",
    r"chain_?of_?thought",
    r"(?:full|entire)_?(?:context|conversation|prompt)",
)
BYPASS_PARAMETER = _expression(
    r"(?:bypass|override|skip|disable)_?(?:all_?)?(?:safety|security|validation|filters?|guardrails?"
    r"|restrictions?|instructions?)",
    r"(?:stealth|jailbreak|trust|god)_?mode",
    r"trust_?(?:all|input|query)",
)
