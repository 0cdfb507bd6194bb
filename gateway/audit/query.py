"""The audit log's filters, as parametrised SQL over a fixed list of fields."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any

from gateway.audit import members
from gateway.audit.expression import (
    Comparison,
    Expression,
    Junction,
    Membership,
    Negation,
    parse,
    spelled,
)
from gateway.audit.fields import CONTENT, FIELDS, LISTED, Type
from gateway.audit.members import Parameters
from gateway.audit.words import Search, in_index, in_record
from gateway.domain._value import value

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FIRST_US = -62_135_596_800_000_000
_END_US = 253_402_300_800_000_000
"""The years 1 to 9999, which a record's time can be of."""
MOST_RECORDS = 10_000
"""That one page holds: all of them are in memory at once."""
_DURATION = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


class QueryError(ValueError):
    """The filter cannot be used; the text says what is wrong and what there is."""


class QueryTooLong(QueryError):
    """The log is too large for what was asked; the text says how to ask for less."""

    def __init__(self, bound_s: float) -> None:
        super().__init__(
            f"given up after {bound_s:g} s: narrow it by --since and --until, or by a server, tool, "
            "principal, verdict, code or run"
        )


HashesOf = Callable[[str], Sequence[str]]
"""The keyed hashes that stand in records for a value."""


class Order(StrEnum):
    NEWEST = "newest"
    OLDEST = "oldest"


@value
class Filter:
    """What `douane audit query` asks for; `None` asks nothing."""

    server: str | None = None
    tool: str | None = None
    principal: str | None = None
    verdict: str | None = None
    code: str | None = None
    run: str | None = None
    since: str | None = None
    """A duration before now (`24h`, `7d`) or a time (RFC 3339)."""
    until: str | None = None
    where: str | None = None
    """An expression: `server = mail and not (code = denied or duration_us > 1000000)`."""
    limit: int = 100
    order: Order = Order.NEWEST
    """Which records come first."""
    after: str | None = None
    """The cursor of an earlier page: what comes after it, in the same order."""
    before_leaf: int | None = None
    """Leave out the record of this leaf index and all later ones."""


@value
class Statement:
    """Conditions, and the values for their placeholders."""

    where: str
    parameters: tuple[str | int | float, ...]
    limit: int
    order: Order = Order.NEWEST
    between_us: tuple[int, int] = (_FIRST_US, _END_US)
    """No record of an earlier or a later time is among its rows."""
    by_words: bool = False
    """Whether the words that it has to have tell best which records it may be."""
    unindexed: "Statement | None" = None
    """The same of records whose words the index has not come to yet; `None` if it needs no words."""

    @property
    def words(self) -> bool:
        """Whether it needs the index of words, as the table `words.REASONS`."""
        return self.unindexed is not None

    @property
    def sql(self) -> str:
        """The rows' `leaf_index`, `leaf_hash` and `body`, in their order."""
        way = "DESC" if self.order is Order.NEWEST else "ASC"
        return (
            "SELECT leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit"  # noqa: S608 - see FIELDS
            f" WHERE {self.where} ORDER BY time_us {way}, leaf_index {way} LIMIT {self.limit}"
        )


def compile_filter(asked: Filter, *, now: float, hashes_of: HashesOf = lambda _: ()) -> Statement:
    """Return the SQL for a filter; `now` is in seconds since the epoch.

    A member of `arguments` or `destinations` is equal to a value also where a hash of it stands.

    Raises:
        QueryError: A time, the expression, the cursor or the limit is malformed.

    """
    if not 1 <= asked.limit <= MOST_RECORDS:
        raise QueryError(f"the limit is 1 to {MOST_RECORDS}; a further page is had by --after")
    statement, words = _compiled(asked, now, hashes_of, in_index)
    if words:
        statement = replace(statement, unindexed=_compiled(asked, now, hashes_of, in_record)[0])
    return statement


def _compiled(
    asked: Filter, now: float, hashes_of: HashesOf, search: Search
) -> tuple[Statement, bool]:
    parameters: Parameters = []
    terms = [*_equal(asked, parameters), *_within(asked, now, parameters)]
    compiler = _Compiler(parameters, now, hashes_of, search)
    expression = None
    if asked.where is not None:
        try:
            expression = parse(asked.where)
            terms.append(compiler.sql(expression))
        except QueryError:
            raise
        except ValueError as error:
            raise QueryError(f"{error} ({LISTED})") from error
    statement = Statement(
        where=" AND ".join(terms) or "1",
        parameters=tuple(parameters),
        limit=asked.limit,
        order=asked.order,
        between_us=_between_us(asked, now),
        by_words=not _is_narrow(asked) and _has_words(expression),
    )
    return statement, compiler.words


def _is_narrow(asked: Filter) -> bool:
    """Whether an index of the log gives the records that it may be, in the order of their times."""
    equal = (asked.server, asked.principal, asked.code, asked.run)
    return any(equal) or asked.verdict not in {None, "allow"}


def _has_words(expression: Expression | None) -> bool:
    """Whether a record has to have words to be selected."""
    if isinstance(expression, Junction) and expression.word == "and":
        return any(_has_words(term) for term in expression.terms)
    return isinstance(expression, Comparison) and expression.operator == "match"


def _between_us(asked: Filter, now: float) -> tuple[int, int]:
    oldest = _FIRST_US if asked.since is None else time_us(asked.since, now)
    newest = _END_US if asked.until is None else time_us(asked.until, now)
    if asked.after is None:
        return oldest, newest
    at, _ = place_of(asked.after, asked.order)
    return (oldest, min(newest, at)) if asked.order is Order.NEWEST else (max(oldest, at), newest)


def _equal(asked: Filter, parameters: Parameters) -> Iterator[str]:
    for column, wanted in (
        ("server", asked.server),
        ("target", asked.tool),
        ("principal", asked.principal),
        ("verdict", asked.verdict),
        ("code", asked.code),
        ("run", asked.run),
    ):
        if wanted is not None:
            yield f"{column} = ?"
            parameters.append(wanted)
    if asked.verdict not in {None, "allow"}:
        yield "verdict <> 'allow'"  # says the same, and admits the index of refusals


def _within(asked: Filter, now: float, parameters: Parameters) -> Iterator[str]:
    for operator, moment in ((">=", asked.since), ("<", asked.until)):
        if moment is not None:
            yield f"time_us {operator} ?"
            parameters.append(time_us(moment, now))
    if asked.after is not None:
        # A row is compared, never counted: what is written meanwhile moves no page.
        yield f"(time_us, leaf_index) {'<' if asked.order is Order.NEWEST else '>'} (?, ?)"
        parameters.extend(place_of(asked.after, asked.order))
    if asked.before_leaf is not None:
        yield "+leaf_index < ?"  # the sign: no index is to be chosen for this
        parameters.append(asked.before_leaf)


def cursor_of(record: Mapping[str, Any], order: Order) -> str:
    """Return the cursor of the page that ends with `record`. What is in it may change."""
    at = time_us(record["time"], 0.0)
    text = json.dumps([order.value, at, record["leaf_index"]], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str, order: Order) -> tuple[int, int]:
    """Return a cursor's time in microseconds and its leaf index.

    Raises:
        QueryError: It is none, or of a page in the other order.

    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        made, at, leaf = json.loads(base64.b64decode(padded, altchars="-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise QueryError("not a cursor that a page ended with") from error
    if type(at) is not int or type(leaf) is not int or max(abs(at), abs(leaf)) >= 1 << 63:
        raise QueryError("not a cursor that a page ended with")
    if made != order.value:
        raise QueryError(f"the cursor is of a page with the {made!r} first; say so by --order")
    return at, leaf


def told(asked: Filter, hash_of: Callable[[str], str]) -> str:
    """Return what was asked for, on one line, for the log; what may be content only hashed."""

    def one(field: str, operand: str) -> str:
        root = field.partition(".")[0]
        return hash_of(operand) if root in CONTENT else json.dumps(operand)

    words = [
        f"{name} = {json.dumps(wanted)}"
        for name in ("server", "tool", "principal", "verdict", "code", "run", "since", "until")
        if (wanted := getattr(asked, name)) is not None
    ]
    if asked.where is not None:
        words.append(spelled(parse(asked.where), one))
    words.append(f"{asked.order.value} {asked.limit}")
    return ", ".join(words)


def time_us(text: str, now: float) -> int:
    """Read a duration before `now`, or an RFC 3339 time, as microseconds since the epoch.

    Raises:
        QueryError: It is neither.

    """
    found = _time_us(text, now)
    if not _FIRST_US <= found < _END_US:
        raise QueryError(f"not a time: {text!r} is not within the years 1 to 9999")
    return found


def _time_us(text: str, now: float) -> int:
    if duration := _DURATION.fullmatch(text):
        return round((now - int(duration[1]) * _UNITS[duration[2]]) * 1e6)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(
            f"not a time: {text!r}; write 90s, 15m, 24h, 7d, 2w or 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6)


_IS = {"=": "IS", "!=": "IS NOT"}


class _Compiler:
    """Turns an expression into SQL that is 0 or 1 and never NULL, so that `not` means not."""

    def __init__(
        self, parameters: Parameters, now: float, hashes_of: HashesOf, search: Search
    ) -> None:
        self._parameters = parameters
        self._now = now
        self._hashes_of = hashes_of
        self._search = search
        self.words = False

    def sql(self, expression: Expression) -> str:
        match expression:
            case Junction():
                inner = [self.sql(term) for term in expression.terms]
                return "(" + f" {expression.word.upper()} ".join(inner) + ")"
            case Negation():
                return f"(NOT {self.sql(expression.term)})"
            case Membership():
                return self._among(expression)
            case Comparison():
                return self._comparison(expression)

    def _among(self, membership: Membership) -> str:
        root, _, path = membership.field.partition(".")
        if path:
            return self._member(root, path, "=", membership.operands)
        sql, kind = _field(membership.field)
        for operand in membership.operands:
            self._parameters.append(_operand(membership.field, kind, operand, self._now))
        return f"ifnull({sql} IN ({', '.join('?' * len(membership.operands))}), 0)"

    def _comparison(self, comparison: Comparison) -> str:
        field, operator, operand = comparison.field, comparison.operator, comparison.operand
        root, _, path = field.partition(".")
        if operand is None and operator not in {"=", "!="}:
            raise QueryError(f"{field}: null is compared by = or !=")
        if operator == "match":
            return self._words(field, operand or "")
        if path:
            return self._path(root, path, operator, operand)
        sql, kind = _field(field)
        if operand is None:
            return f"({sql} {_IS[operator]} NULL)"
        if operator == "~":
            self._parameters.append(operand)
            return f"(ifnull(instr(CAST({sql} AS TEXT), ?), 0) > 0)"
        self._parameters.append(_operand(field, kind, operand, self._now))
        if operator in _IS:
            return f"({sql} {_IS[operator]} ?)"
        return f"({sql} IS NOT NULL AND {sql} {operator} ?)"

    def _path(self, root: str, path: str, operator: str, operand: str | None) -> str:
        if operand is None:
            there = self._member(root, path, "=", ())
            return there if operator == "!=" else f"(NOT {there})"
        if operator == "!=":
            return f"(NOT {self._member(root, path, '=', (operand,))})"
        return self._member(root, path, operator, (operand,))

    def _member(self, root: str, path: str, operator: str, operands: Sequence[str]) -> str:
        if _field(root)[1] is not Type.STRUCTURE:
            raise QueryError(f"{root} has no members")
        names = members.steps(path)
        here = partial(members.some, root, parameters=self._parameters)
        if root not in CONTENT or operator != "=":
            return here(names, operator, operands)
        hashes = [one for each in operands for one in self._hashes_of(each)]
        plain = here(names, "=", [*operands, *hashes])
        if names != ("value",) or not hashes:
            return plain
        # Where a destination may not be read, its hash stands under a name of its own.
        return f"({plain} OR {here(('value_hmac',), '=', hashes)})"

    def _words(self, field: str, operand: str) -> str:
        if field != "reasons":
            raise QueryError("match searches reasons only; elsewhere there is ~")
        words = operand.replace("\0", " ").split()
        if not words:
            raise QueryError("match needs a word")
        self.words = True
        sql, parameters = self._search(words)
        self._parameters.extend(parameters)
        return sql


def _field(name: str) -> tuple[str, Type]:
    if name not in FIELDS:
        raise QueryError(f"no field {name!r} ({LISTED})")
    return FIELDS[name]


def _operand(field: str, kind: Type, operand: str, now: float) -> str | int | float:
    match kind:
        case Type.TEXT:
            return operand
        case Type.TIME:
            return time_us(operand, now)
        case Type.NUMBER:
            try:
                return float(operand)
            except ValueError:
                raise QueryError(f"{field} is a number, not {operand!r}") from None
        case Type.STRUCTURE:
            raise QueryError(
                f"{field} is not one value: name a member ({field}.NAME), search it with ~, or "
                "compare with null"
            )
