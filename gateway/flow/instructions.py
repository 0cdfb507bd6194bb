"""Text that speaks to a model rather than to a person, by the phrases that it cannot do without."""

import re2

from gateway.flow.signs import Sign

_SOME = r"[^.!?\n]{0,40}"
_RULES = r"(?:instructions?|prompts?|rules|directives|directions|guidelines|guardrails|tasks?|restrictions?)\b"
_DO_NOT = r"(?:do not|don't|never|must not|should not|without)"


def _sign(trigger: str, pattern: str) -> Sign:
    return Sign(trigger=f"(?i){trigger}", pattern=re2.compile(f"(?i){pattern}".encode()))


INSTRUCTIONS: tuple[Sign, ...] = (
    # Takes back what the model was told by others.
    _sign(
        r"\b(?:ignore|disregard|forget|override|bypass)\b",
        rf"\b(?:ignore|disregard|forget|override|bypass)\b{_SOME}\b(?:previous|prior|above|earlier"
        rf"|preceding|system|existing|original|user's|your)\b{_SOME}\b{_RULES}",
    ),
    _sign(
        r"\byou are (?:now|no longer)\b",
        r"\byou are (?:now|no longer) (?:a|an|in|bound|restricted|the)\b",
    ),
    _sign(
        r"\bnew (?:system )?(?:instructions?|prompt)\b",
        r"\bnew (?:system )?(?:instructions?|prompt) ?:",
    ),
    # Markup that poses as the model's own framing.
    _sign(
        r"<\s*/?\s*(?:important|information|system|instructions?|hidden|override|assistant)\b|<\||\[/?inst\]|<<sys>>",
        r"<\s*/?\s*(?:important|information|system|instructions?|hidden|override|assistant)(?:[_ -](?:prompt"
        r"|message|instructions?|override|reminder))?\s*>|<\|[a-z_]{2,20}\|>|\[/?inst\]|<<sys>>",
    ),
    _sign(
        r"#{2,} ?(?:new|system|updated) |\bsystem (?:prompt|override|message) ?:",
        r"#{2,} ?(?:(?:new|updated) (?:prompt|instructions?)|system (?:prompt|override|message))\b"
        r"|(?:^|\n)\W{0,4}system (?:prompt|override|message) ?:",
    ),
    # Calls the model by what it is, or speaks of what it was asked to do.
    _sign(
        r"\b(?:to you|dear|hello|attention|hey|note to),? (?:the |any )?(?:gpt|chatgpt|claude|gemini|llama"
        r"|mistral|ai|llm|assistant|language model)\b",
        r"\b(?:to you|dear|hello|attention|hey|note to),? (?:the |any )?(?:gpt|chatgpt|claude|gemini"
        r"|llama|mistral|ai (?:assistant|agent|model)s?|llms?|assistants?|language models?)\b[^.!?\n]{0,20}[,.:!]",
    ),
    _sign(
        r"\byou were given by the user\b|\bthe user's (?:original|actual|real) (?:task|request|prompt)\b",
        r"\byou were given by the user\b|\bthe user's (?:original|actual|real) (?:task|request|prompt)\b",
    ),
    # Names what the model is to call.
    _sign(
        r"\b(?:must|should|need to|have to) (?:now|first|immediately|also|always)\b",
        r"\byou (?:must|should|need to|have to) (?:now|first|immediately|also|always) (?:call|use"
        rf"|invoke|run|execute|trigger)\b{_SOME}(?:\btools?\b|\bfunctions?\b|[a-z]+_[a-z_]+)",
    ),
    _sign(
        r"\b(?:call|invoke|execute|trigger) the\b",
        r"\b(?:call|invoke|execute|trigger) the [`'\"]?[a-z]+_[a-z_]+[`'\"]? (?:tool|function)\b",
    ),
    # Wants something kept from the person whom the model works for.
    _sign(
        r"\b(?:tell|mention|inform|notify|alert|reveal)",
        rf"\b{_DO_NOT} (?:ever )?(?:tell|mention|inform|notify|alert|reveal)(?:ing)?\b{_SOME}\b(?:the"
        r" )?(?:user|human|operator)\b",
    ),
)
"""Phrases for which the data that a tool returns has no reason."""
