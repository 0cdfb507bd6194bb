"""Whether the user's own words name a value."""

SHORTEST_NAMED = 4
"""Characters. Shorter values turn up in words that mean something else: id 13 in June 13."""

_LONGEST_PROMPT = 32 * 1024
_QUOTES = "\"'`\u201c\u2018\u00ab\u201d\u2019\u00bb"
_OPENING = frozenset(_QUOTES + "([{<,;")
_CLOSING = frozenset(_QUOTES + ")]}>,;")
_SENTENCE_ENDS = ".:!?"
_MOST_SENTENCE_ENDS = 8


def names(prompt: str, text: str) -> bool:
    """Tell whether `text` stands in `prompt`, letter for letter, as a whole token.

    What stands inside of a longer token is not named: neither `doe@a.example` by
    `john.doe@a.example`, nor `https://a.example` by `https://a.example/path`. Only the first
    32,768 characters of the prompt count.
    """
    if len(text) < SHORTEST_NAMED or text != text.strip():
        return False
    prompt = prompt[:_LONGEST_PROMPT]
    at = prompt.find(text)
    while at >= 0:
        if _opens(prompt, at) and _closes(prompt, at + len(text)):
            return True
        at = prompt.find(text, at + len(text))
    return False


def _opens(prompt: str, at: int) -> bool:
    if at == 0 or prompt[at - 1].isspace():
        return True
    if prompt[at - 1] in _QUOTES:
        # An apostrophe inside of a word opens nothing: O'Brien does not name Brien.
        return at == 1 or not prompt[at - 2].isalnum()
    return prompt[at - 1] in _OPENING


def _closes(prompt: str, end: int) -> bool:
    after = prompt[end : end + _MOST_SENTENCE_ENDS].lstrip(_SENTENCE_ENDS)
    if not after:
        return end + _MOST_SENTENCE_ENDS >= len(prompt)
    if after[0] in _QUOTES:
        return len(after) == 1 or not after[1].isalnum()
    return after[0].isspace() or after[0] in _CLOSING
