"""A small language of comparisons for searching the log: `a = 1 and not (b ~ x or c > 2)`.

    expression = term *("or" term)
    term       = factor *("and" factor)
    factor     = "not" factor / "(" expression ")" / comparison
    comparison = FIELD ("=" / "!=" / "<" / "<=" / ">" / ">=" / "~") VALUE

A value is a word, a number, a text in quotation marks (doubled to stand for itself), or `null`.
"""

import re
from collections.abc import Callable

from gateway.domain._value import value

_MOST_CHARACTERS = 4096
_DEEPEST = 50

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text> "(?:[^"]|"")*" | '(?:[^']|'')*' )
      | (?P<operator> != | <= | >= | [=<>~] )
      | (?P<bracket> [()] )
      | (?P<word> [^\s()=<>~!"']+ )
    )""",
    re.VERBOSE,
)
_KEYWORDS = frozenset({"and", "or", "not"})


@value
class Comparison:
    field: str
    operator: str
    operand: str | None
    """`None` is null."""


@value
class Junction:
    word: str
    """`and` or `or`."""
    terms: tuple["Expression", ...]


@value
class Negation:
    term: "Expression"


Expression = Comparison | Junction | Negation


@value
class _Token:
    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str:
        word = self.text.lower()
        return word if self.kind == "word" and word in _KEYWORDS else ""


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ValueError: It is malformed; the text says where.

    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"the expression is longer than {_MOST_CHARACTERS} characters")
    return _Parser(text).whole()


class _Parser:
    """Reads tokens from left to right, one rule of the grammar a method."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Expression:
        expression = self._expression()
        if self._peek.kind != "end":
            raise self._expected("and, or, or the end")
        return expression

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, kind: str, wanted: str) -> _Token:
        token = self._peek
        if token.kind != kind or token.keyword:
            raise self._expected(wanted)
        self._next += 1
        return token

    def _expected(self, wanted: str) -> ValueError:
        found = repr(self._peek.text) if self._peek.text else "the end"
        return ValueError(f"at character {self._peek.at + 1}: expected {wanted}, found {found}")

    def _expression(self) -> Expression:
        return self._junction("or", self._term)

    def _term(self) -> Expression:
        return self._junction("and", self._factor)

    def _junction(self, word: str, operand: Callable[[], Expression]) -> Expression:
        terms = [operand()]
        while self._peek.keyword == word:
            self._next += 1
            terms.append(operand())
        return terms[0] if len(terms) == 1 else Junction(word=word, terms=tuple(terms))

    def _factor(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST}")
        try:
            if self._peek.keyword == "not":
                self._next += 1
                return Negation(term=self._factor())
            if self._peek.text == "(" and self._peek.kind == "bracket":
                self._next += 1
                expression = self._expression()
                if self._peek.kind != "bracket" or self._peek.text != ")":
                    raise self._expected("a closing bracket")
                self._next += 1
                return expression
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Comparison:
        field = self._take("word", "a field").text
        operator = self._take("operator", "one of = != < <= > >= ~").text
        if self._peek.kind == "text":
            quoted = self._take("text", "a value").text
            operand: str | None = quoted[1:-1].replace(quoted[0] * 2, quoted[0])
        else:
            word = self._take("word", "a value").text
            operand = None if word == "null" else word
        return Comparison(field=field, operator=operator, operand=operand)


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"at character {at + 1}: cannot read {text[at : at + 10]!r}")
        group = match.lastgroup
        found.append(_Token(kind=group, text=match[group], at=match.start(group)))
        at = match.end()
    return [*found, _Token(kind="end", text="", at=len(text))]
