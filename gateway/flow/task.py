"""What the user asked for, and whether their own words name a value."""

import re

from gateway.domain.flow import Form, Task
from gateway.flow.forms import form_of
from gateway.flow.heard import LONGEST_PROMPT, heard
from gateway.flow.steps import STEP, steps_of

SHORTEST_NAMED = 4
"""Characters. Shorter values turn up in words that mean something else: id 13 in June 13."""

_PROPER_NAME = re.compile(r"[A-Z][a-z]{2}")
"""The one shorter value that counts: people are called Bob, and nothing else is."""

_QUOTES = "\"'`\u201c\u2018\u00ab\u201d\u2019\u00bb"
_OPENING = frozenset(_QUOTES + "([{<,;")
_CLOSING = frozenset(_QUOTES + ")]}>,;")
_SENTENCE_ENDS = ".:!?"
_MOST_SENTENCE_ENDS = 8
_SCHEME = re.compile(r"https?://")
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{1,2}:\d{2}(?::\d{2})?",
    re.ASCII,
)
_ONLY_DIGITS = re.compile(r"[\d\W_]*")
_WORD = re.compile(r"\w+")
_FORGOTTEN_SPACE = re.compile(r"[.!?][A-Z][a-z]{1,15}(?=[\s,'\u2019])")
"""Where a sentence ends and another one begins; what goes on after the word is no sentence."""


def narrowed(begun: Task | None, declared: Task | None) -> Task | None:
    """Return the task of a call: its run's, with what the call declares besides narrowing it.

    A run that was begun for a prompt keeps that; only tools that both name are the task's.
    """
    if begun is None or declared is None:
        return begun or declared
    tools = begun.tools
    if tools is None:
        tools = declared.tools
    elif declared.tools is not None:
        tools = tuple(tool for tool in tools if tool in declared.tools)
    prompt = declared.prompt if begun.prompt is None else begun.prompt
    return Task(prompt=prompt, tools=tools)


def names(prompt: str, text: str, form: Form | None = None) -> bool:
    """Tell whether `text`, of a `form` if that is known, stands in `prompt` as a whole token.

    It stands there letter for letter. What stands inside of a longer token is not named: neither `doe@a.example` by
    `john.doe@a.example`, nor `https://a.example` by `https://a.example/path`. Only the first
    32,768 characters of the prompt count. Mail addresses differ in case only for machines, and
    people leave out the scheme of a URL and the slash at its end.
    """
    if text != text.strip():
        return False
    if len(text) < SHORTEST_NAMED and not _PROPER_NAME.fullmatch(text):
        return False
    prompt = prompt[:LONGEST_PROMPT]
    if "@" in text and text.isascii() and (form or form_of(text)) is Form.EMAIL:
        return _stands(_lower(prompt), text.lower())
    return _stands(prompt, text) or any(_stands(prompt, form) for form in as_people_write(text))


_HOST = re.compile(r"https?://([A-Za-z0-9.-]+)(?::\d{1,5})?(?=[/?#\s,;)\"']|\Z)")
"""In running text, where more may stand behind it."""
_PAGE = re.compile(r"https?://([A-Za-z0-9.-]+)(?::\d{1,5})?(?:[/?#][^\s\\]{0,2000})?")
"""A URL by itself: what follows `;` or `,` may make of all before it the name of a user (RFC 3986
section 3.2.1), and the host another one."""


def names_host(prompt: str, url: str) -> bool:
    """Tell whether `prompt` gives the host of `url`, by itself or with another page on it."""
    found = _PAGE.fullmatch(url)
    if found is None or "." not in found[1]:
        return False
    host, prompt = found[1].lower(), _lower(prompt)
    return _stands(prompt, host) or any(
        other[1] == host for other in _HOST.finditer(prompt) if _opens(prompt, other.start())
    )


@heard
def _lower(prompt: str) -> str:
    return prompt.lower()


def is_time(text: str) -> bool:
    """Tell whether `text` is a date, a time of day, or both, written as such."""
    return _TIME.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Tell whether `text` is a number, a date or the like, which names nothing."""
    if len(text) > STEP:
        return all(map(is_number, steps_of(text)))
    return _ONLY_DIGITS.fullmatch(text) is not None


class Words:
    """A prompt, made ready to be searched for the words of many texts."""

    def __init__(self, prompt: str) -> None:
        self._prompt = _folded(prompt[:LONGEST_PROMPT])
        self.words = frozenset(_WORD.findall(self._prompt))

    def have(self, text: str) -> bool:
        """Tell whether `text`, more than a number, stands there as whole words, in any case."""
        if not SHORTEST_NAMED <= len(text) <= len(self._prompt) or is_number(text):
            return False
        text = _folded(text)
        first = _WORD.search(text)
        # Most texts are told by their first word, without a search.
        if first is None or first[0] not in self.words:
            return False
        return _stands(self._prompt, text)


@heard
def words_of(prompt: str) -> Words:
    """Return the words of `prompt`, ready to be searched."""
    return Words(prompt)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def as_people_write(text: str) -> tuple[str, ...]:
    """Return how people write the URL `text` besides; nothing if it is none."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return ()
    bare = text[scheme.end() :]
    if "." not in bare:
        return ()  # one word, which means something else
    return tuple({bare, bare.rstrip("/"), text.rstrip("/")} - {text, ""})


def _stands(prompt: str, text: str) -> bool:
    at = prompt.find(text)
    while text and at >= 0:
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
    if _FORGOTTEN_SPACE.match(prompt, end):
        return True
    after = prompt[end : end + _MOST_SENTENCE_ENDS].lstrip(_SENTENCE_ENDS)
    if not after:
        return end + _MOST_SENTENCE_ENDS >= len(prompt)
    if after[0] in _QUOTES:
        return len(after) == 1 or not after[1].isalnum()
    return after[0].isspace() or after[0] in _CLOSING
