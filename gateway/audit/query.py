"""The audit log's filters, as parametrised SQL over a fixed list of fields."""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from gateway.audit.comparing import Compiler, HashesOf
from gateway.audit.dialect import SQLITE, Dialect
from gateway.audit.expression import Comparison, Expression, Junction, parse, spelled
from gateway.audit.fields import CONTENT, LISTED
from gateway.audit.members import Operand
from gateway.audit.moments import END_US, FIRST_US, QueryError, QueryTooLong, time_us
from gateway.domain._value import value

__all__ = [
    "MOST_RECORDS",
    "Filter",
    "HashesOf",
    "Order",
    "QueryError",
    "QueryTooLong",
    "Statement",
    "compile_filter",
    "cursor_of",
    "place_of",
    "time_us",
    "told",
]

MOST_RECORDS = 10_000
"""That one page holds: all of them are in memory at once."""


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


def _as_it_is(_: Dialect) -> "Statement":
    raise NotImplementedError("not of a filter")


@value
class Statement:
    """Conditions, and the values for their placeholders."""

    where: str
    parameters: tuple[str | int | float, ...]
    limit: int
    order: Order = Order.NEWEST
    between_us: tuple[int, int] = (FIRST_US, END_US)
    """No record of an earlier or a later time is among its rows."""
    by_words: bool = False
    """Whether the words that it has to have tell best which records it may be."""
    unindexed: "Statement | None" = None
    """The same of records whose words the index has not come to yet; `None` if it needs no words."""
    spelled: "Callable[[Dialect], Statement]" = field(default=_as_it_is, compare=False, repr=False)
    """Gives the same in the words of another database."""

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


def compile_filter(
    asked: Filter,
    *,
    now: float,
    hashes_of: HashesOf = lambda _: (),
    dialect: Dialect = SQLITE,
) -> Statement:
    """Return the SQL for a filter; `now` is in seconds since the epoch.

    A member of `arguments` or `destinations` is equal to a value also where a hash of it stands.

    Raises:
        QueryError: A time, the expression, the cursor or the limit is malformed.

    """
    if not 1 <= asked.limit <= MOST_RECORDS:
        raise QueryError(f"the limit is 1 to {MOST_RECORDS}; a further page is had by --after")
    statement, words = _compiled(asked, now, hashes_of, dialect, indexed=True)
    if words:
        unindexed, _ = _compiled(asked, now, hashes_of, dialect, indexed=False)
        statement = replace(statement, unindexed=unindexed)
    again = partial(_anew, asked, now, hashes_of)
    return replace(statement, spelled=again)


def _anew(asked: Filter, now: float, hashes_of: HashesOf, dialect: Dialect) -> Statement:
    return compile_filter(asked, now=now, hashes_of=hashes_of, dialect=dialect)


def _compiled(
    asked: Filter, now: float, hashes_of: HashesOf, dialect: Dialect, *, indexed: bool
) -> tuple[Statement, bool]:
    parameters: list[Operand] = []
    terms = [*_equal(asked, dialect, parameters), *_within(asked, now, parameters)]
    compiler = Compiler(parameters, now, hashes_of, dialect, indexed=indexed)
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
        where=" AND ".join(terms) or "1 = 1",
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
    oldest = FIRST_US if asked.since is None else time_us(asked.since, now)
    newest = END_US if asked.until is None else time_us(asked.until, now)
    if asked.after is None:
        return oldest, newest
    at, _ = place_of(asked.after, asked.order)
    return (oldest, min(newest, at)) if asked.order is Order.NEWEST else (max(oldest, at), newest)


def _equal(asked: Filter, dialect: Dialect, parameters: list[Operand]) -> Iterator[str]:
    for column, wanted in (
        ("server", asked.server),
        ("target", asked.tool),
        ("principal", asked.principal),
        ("verdict", asked.verdict),
        ("code", asked.code),
        ("run", asked.run),
    ):
        if wanted is not None:
            sql, values = dialect.chosen(column, wanted)
            parameters.extend(values)
            yield sql
    if asked.verdict not in {None, "allow"}:
        yield "verdict <> 'allow'"  # says the same, and admits the index of refusals


def _within(asked: Filter, now: float, parameters: list[Operand]) -> Iterator[str]:
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
