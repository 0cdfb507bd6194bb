"""The audit log's filters, as parametrised SQL over a fixed list of fields."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from gateway.audit.expression import Comparison, Expression, Junction, Negation, parse
from gateway.audit.record import COLUMNS, FIELDS
from gateway.domain._value import value

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])", re.ASCII)


class QueryError(ValueError):
    """The filter cannot be used; the text says what is wrong and what there is."""


class _Type(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    TIME = "time"
    STRUCTURE = "structure"


_NUMBERS = frozenset({"upstream_status", "result_bytes", "duration_us", "seq", "leaf_index"})
_STRUCTURES = frozenset({
    "arguments", "roles", "obligations", "label_before", "label_after", "sources", "destinations",
    "reasons", "question", "candidate", "evidence", "truncated",
})  # fmt: skip


def _sql_of(name: str) -> str:
    if name == "leaf_hash":
        return "lower(hex(leaf_hash))"
    if name == "time":
        return "time_us"
    if name in COLUMNS or name == "leaf_index":
        return name
    return f"json_extract(body, '$.{name}')"


def _type_of(name: str) -> _Type:
    if name == "time":
        return _Type.TIME
    if name in _NUMBERS:
        return _Type.NUMBER
    return _Type.STRUCTURE if name in _STRUCTURES else _Type.TEXT


_FIELDS: Mapping[str, tuple[str, _Type]] = {
    name: (_sql_of(name), _type_of(name)) for name in (*FIELDS, "leaf_index", "leaf_hash")
}
"""Every field that a filter may name, and the SQL that reads it: nothing else becomes SQL."""

_LISTED = f"fields: {', '.join(sorted(_FIELDS))}"


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


@value
class Statement:
    """Conditions, and the values for their placeholders."""

    where: str
    parameters: tuple[str | int | float, ...]
    limit: int

    @property
    def sql(self) -> str:
        """The rows' `leaf_index`, `leaf_hash` and `body`, newest first."""
        return (
            "SELECT leaf_index, leaf_hash, CAST(body AS BLOB) FROM audit"  # noqa: S608 - see _FIELDS
            f" WHERE {self.where} ORDER BY time_us DESC, leaf_index DESC LIMIT {self.limit}"
        )


def compile_filter(asked: Filter, *, now: float) -> Statement:
    """Return the SQL for a filter; `now` is in seconds since the epoch.

    Raises:
        QueryError: A time, the expression or the limit is malformed.

    """
    if asked.limit < 1:
        raise QueryError("the limit is at least 1")
    terms: list[str] = []
    parameters: list[str | int | float] = []
    for column, wanted in (
        ("server", asked.server),
        ("target", asked.tool),
        ("principal", asked.principal),
        ("verdict", asked.verdict),
        ("code", asked.code),
        ("run", asked.run),
    ):
        if wanted is not None:
            terms.append(f"{column} = ?")
            parameters.append(wanted)
    if asked.verdict not in {None, "allow"}:
        terms.append("verdict <> 'allow'")  # says the same, and admits the index of refusals
    for operator, moment in ((">=", asked.since), ("<", asked.until)):
        if moment is not None:
            terms.append(f"time_us {operator} ?")
            parameters.append(time_us(moment, now))
    if asked.where is not None:
        try:
            expression = parse(asked.where)
        except ValueError as error:
            raise QueryError(f"{error} ({_LISTED})") from error
        terms.append(_sql(expression, parameters, now))
    return Statement(
        where=" AND ".join(terms) or "1", parameters=tuple(parameters), limit=asked.limit
    )


def time_us(text: str, now: float) -> int:
    """Read a duration before `now`, or an RFC 3339 time, as microseconds since the epoch.

    Raises:
        QueryError: It is neither.

    """
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


def _sql(expression: Expression, parameters: list[str | int | float], now: float) -> str:
    """Return the SQL of `expression`, which is 0 or 1 and never NULL, so `not` means not."""
    match expression:
        case Junction():
            inner = [_sql(term, parameters, now) for term in expression.terms]
            return "(" + f" {expression.word.upper()} ".join(inner) + ")"
        case Negation():
            return f"(NOT {_sql(expression.term, parameters, now)})"
        case Comparison():
            return _comparison(expression, parameters, now)


def _comparison(comparison: Comparison, parameters: list[str | int | float], now: float) -> str:
    if comparison.field not in _FIELDS:
        raise QueryError(f"no field {comparison.field!r} ({_LISTED})")
    sql, kind = _FIELDS[comparison.field]
    operator, operand = comparison.operator, comparison.operand
    if operand is None:
        if operator not in {"=", "!="}:
            raise QueryError(f"{comparison.field}: null is compared by = or !=")
        return f"({sql} IS {'NOT ' if operator == '!=' else ''}NULL)"
    if operator == "~":
        parameters.append(operand)
        return f"(ifnull(instr(CAST({sql} AS TEXT), ?), 0) > 0)"
    parameters.append(_operand(comparison.field, kind, operand, now))
    if operator == "=":
        return f"({sql} IS ?)"
    if operator == "!=":
        return f"({sql} IS NOT ?)"
    return f"({sql} IS NOT NULL AND {sql} {operator} ?)"


def _operand(field: str, kind: _Type, operand: str, now: float) -> str | int | float:
    match kind:
        case _Type.TEXT:
            return operand
        case _Type.TIME:
            return time_us(operand, now)
        case _Type.NUMBER:
            try:
                return float(operand)
            except ValueError:
                raise QueryError(f"{field} is a number, not {operand!r}") from None
        case _Type.STRUCTURE:
            raise QueryError(f"{field} is not one value: search it with ~, or compare with null")
