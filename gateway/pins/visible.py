"""Text that an upstream wrote, made safe and honest for a person to look at."""

import re
import unicodedata

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e", "\\": "\\\\"}
_SEEN_AS_THEY_ARE = frozenset(
    {"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}
    | {"Sm", "Sc", "Sk", "So"}
)
"""General categories of what has a shape of its own; marks, formats, spaces and controls have not."""

_SHAPELESS_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Fillers: letters and symbols by category, and blank on the screen."""

_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_REPEATS = re.compile(r"( |\\(?:[nrte\\]|u\{[0-9a-f]+\}))\1{8,}")


def visible(text: str) -> str:
    r"""Return `text` on one line, with everything that hides spelled out.

    Control characters, ANSI escapes, bidirectional and zero-width characters become `\u{...}`, and
    so do combining marks; Unicode tag characters, which spell ASCII unseen, become `\tags{...}`;
    nine or more of one blank become the blank and a count, so that nothing is pushed out of
    sight. A backslash is doubled, so nothing can pose as an escape.
    """
    shown = "".join(map(_shown, _TAGS.split(text), [*_TAGS.findall(text), ""]))
    return _REPEATS.sub(lambda run: f"{run[1]}\\{{{len(run[0]) // len(run[1])} times}}", shown)


def _shown(plain: str, tags: str) -> str:
    spelled = "".join(map(_character, plain))
    if not tags:
        return spelled
    ascii_text = "".join(chr(ord(tag) - 0xE0000) for tag in tags)
    return f"{spelled}\\tags{{{ascii_text.replace(chr(92), chr(92) * 2)}}}"


def _character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character == " ":
        return character
    if character in _SHAPELESS_LETTERS or unicodedata.category(character) not in _SEEN_AS_THEY_ARE:
        return f"\\u{{{ord(character):x}}}"
    return character
