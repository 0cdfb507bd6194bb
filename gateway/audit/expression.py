"""A small language of comparisons for searching the log: `a = 1 and not (b ~ x or c > 2)`.

    expression = term *("or" term)
    term       = factor *("and" factor)
    factor     = "not" factor / "(" expression ")" / comparison
    comparison = FIELD ("=" / "!=" / "<" / "<=" / ">" / ">=" / "~" / "match") VALUE
               / FIELD "in" "(" VALUE *("," VALUE) ")"

A value is a word, a number, a text in quotation marks (doubled to stand for itself), or `null`.
Words are read as they are between `and`, `or`, `not` and blanks; in the brackets of an `in` also
between commas.
"""

import re
from collections.abc import Callable

from gateway.domain._value import value

_MOST_CHARACTERS = 4096
_MOST_LISTED = 100
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
class Membership:
    """The field is one of these: `a in (x, y)`."""

    field: str
    operands: tuple[str, ...]


@value
class Junction:
    word: str
    """`and` or `or`."""
    terms: tuple["Expression", ...]


@value
class Negation:
    term: "Expression"


Expression = Comparison | Membership | Junction | Negation

Told = Callable[[str, str], str]
"""How a value is told that a field is compared with."""


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

    def _comparison(self) -> Expression:
        field = self._take("word", "a field").text
        word = self._peek.text.lower() if self._peek.kind == "word" else ""
        if word == "in":
            self._next += 1
            return Membership(field=field, operands=self._listed())
        if word == "match":
            self._next += 1
            operator = word
        else:
            operator = self._take("operator", "one of = != < <= > >= ~ in match").text
        if self._peek.kind == "text":
            return Comparison(field=field, operator=operator, operand=self._text())
        word = self._take("word", "a value").text
        operand = None if word == "null" else word
        return Comparison(field=field, operator=operator, operand=operand)

    def _text(self) -> str:
        quoted = self._take("text", "a value").text
        return quoted[1:-1].replace(quoted[0] * 2, quoted[0])

    def _listed(self) -> tuple[str, ...]:
        """Read values between brackets; a word may hold several of them, and commas."""
        if self._peek.text != "(" or self._peek.kind != "bracket":
            raise self._expected("an opening bracket")
        self._next += 1
        operands: list[str] = []
        separated = True
        while self._peek.kind in {"text", "word"}:
            texts = self._peek.kind == "text"
            parts = [self._text()] if texts else _parts(self._take("word", "a value").text)
            for part in parts:
                comma = part == "," and not texts
                if comma is separated:
                    self._next -= 1
                    raise self._expected("a value" if comma else "a comma")
                separated = comma
                operands += [] if comma else [part]
        if self._peek.text != ")" or self._peek.kind != "bracket" or separated:
            raise self._expected("a value" if separated else "a comma or a closing bracket")
        self._next += 1
        if len(operands) > _MOST_LISTED:
            raise ValueError(f"more than {_MOST_LISTED} values in one list")
        return tuple(operands)


def _parts(word: str) -> list[str]:
    return [part for part in re.split("(,)", word) if part]


def spelled(expression: Expression, told: Told) -> str:
    """Return the text of an expression; each value as `told` says it."""
    match expression:
        case Junction():
            inner = f" {expression.word} ".join(spelled(term, told) for term in expression.terms)
            return f"({inner})"
        case Negation():
            return f"not {spelled(expression.term, told)}"
        case Membership():
            listed = ", ".join(told(expression.field, one) for one in expression.operands)
            return f"{expression.field} in ({listed})"
        case Comparison():
            operand = expression.operand
            value_ = "null" if operand is None else told(expression.field, operand)
            return f"{expression.field} {expression.operator} {value_}"


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
