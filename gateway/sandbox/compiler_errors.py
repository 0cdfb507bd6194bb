"""What the compiler of TypeScript says of a program, as errors of its author's (pure)."""

import re
from collections.abc import Sequence
from typing import Final

from gateway.domain._value import value
from gateway.sandbox.screen import one_line

PROGRAM: Final = "/program/program.ts"
"""Where the compiler finds what `wrapped` returns."""

_BEFORE: Final = "export default async () => {\n"
"""A program is the inside of a function: `await` and `return` stand at its top."""
_LINES_BEFORE: Final = 1
_LINES_AFTER: Final = 1
_SYNTAX: Final = "syntax"
_TOLD: Final = 20
"""Errors; of more only how many they are."""
_TEXT_CHARS: Final = 300
_FOUND: Final = re.compile(r"^TS([0-9]{4,5}) \[ERROR\]: ", re.MULTILINE)
_PLACE: Final = re.compile(
    rf"^    at file://{re.escape(PROGRAM)}:([0-9]{{1,9}}):([0-9]{{1,9}})$", re.MULTILINE
)
_IN_A_FILE: Final = "\n    at file://"
_UNREAD: Final = re.compile(r"^error: SyntaxError: (.*)$", re.MULTILINE)
_LINE_END: Final = re.compile("\r\n|[\n\r\u2028\u2029]")
"""As the language has it, inside of texts as well."""
_MARK: Final = re.compile(r" *(?:~+|\^)")
"""What stands below a line of the program that is quoted, and says where in it."""
_SYNTACTIC: Final = range(1000, 2000)
_IMPLIED: Final = range(7000, 7100)
"""Of what has no type and therefore is of any: that is no mistake."""


@value
class Mistake:
    """One error, by its place in the program's text; both numbers begin at 1."""

    line: int
    column: int
    code: str
    """`TS2345`; `syntax` where nothing was compiled."""
    text: str
    is_syntax: bool = False

    def __str__(self) -> str:
        return f"program.ts:{self.line}:{self.column}: error[{self.code}] {self.text}\n"


def wrapped(code: str, declarations: str) -> str:
    """Return what is compiled: the program as a module, and below it what declares its tools."""
    return f"{_BEFORE}{code}\n}}\n{declarations}"


def lines_of(code: str) -> int:
    """Return how many lines the compiler sees in a program."""
    return len(_LINE_END.findall(code)) + 1


def mistakes(said: str, lines: int) -> Sequence[Mistake] | None:
    """Return what is wrong with a program of so many lines; `None` where it was not compiled."""
    starts = list(_FOUND.finditer(said))
    if not starts:
        unread = _UNREAD.search(said)
        syntax = unread and _mistake(_SYNTAX, unread[1], said, lines)
        return [syntax] if syntax else None
    ends = [*(one.start() for one in starts[1:]), len(said)]
    told = [said[one.end() : end] for one, end in zip(starts, ends, strict=True)]
    several = [
        _mistake(f"TS{one[1]}", _text(piece), piece, lines)
        for one, piece in zip(starts, told, strict=True)
        if int(one[1]) not in _IMPLIED
    ]
    found = [one for one in several if one is not None]
    # What is wrong in no file is wrong with the libraries, and then nobody's types were checked.
    return found if found or all(_IN_A_FILE in piece for piece in told) else None


def listed(found: Sequence[Mistake]) -> str:
    """Return mistakes as their author reads them, one a line."""
    more = len(found) - _TOLD
    return "".join(map(str, found[:_TOLD])) + (f"and {more} more\n" if more > 0 else "")


def _mistake(code: str, text: str, told: str, lines: int) -> Mistake | None:
    """Return one, unless it is of another file, or of what declares the tools."""
    place = _PLACE.search(told)
    line = int(place[1]) - _LINES_BEFORE if place else 0
    is_unread = code == _SYNTAX
    if place is None or (line > lines + _LINES_AFTER and not is_unread):
        return None
    return Mistake(
        line=min(max(line, 1), lines),
        column=int(place[2]),
        code=code,
        text=one_line(text, _TEXT_CHARS),
        is_syntax=is_unread or int(code.removeprefix("TS")) in _SYNTACTIC,
    )


def _text(told: str) -> str:
    """Return what is said of a mistake, without the line that is quoted."""
    text, place, _ = told.partition(_IN_A_FILE)
    said = text.split("\n")
    if place and len(said) > 2 and _MARK.fullmatch(said[-1]):  # noqa: PLR2004 - text, line, mark
        said = said[:-2]
    return "\n".join(said)
