"""How PostgreSQL spells a filter's comparisons: the same as SQLite's, over columns that are cut."""

from collections.abc import Sequence
from typing import Final

from gateway.audit.dialect import Part
from gateway.audit.fields import FIELDS, Type
from gateway.audit.members import OPERATORS, Operand, number_in
from gateway.audit.record import COLUMNS
from gateway.storage.postgres.terms import LONGEST_INDEXED, NUL, filed

_TEXTS: Final = frozenset(COLUMNS) - {"time_us"}
_OTHERS: Final = {
    "time": "time_us",
    "leaf_index": "leaf_index",
    "leaf_hash": "encode(leaf_hash, 'hex')",
}


class PostgresDialect:
    """A `Dialect`. What a column was cut of, or has a sign for, is compared with the record itself."""

    def missing(self, field: str) -> str:
        return f"({_place(field)} IS NULL)"

    def chosen(self, field: str, text: str) -> Part:
        return self.same(field, text)

    def same(self, field: str, operand: Operand) -> Part:
        if field not in _TEXTS:
            sql = _read(field)
            return f"({sql} IS NOT NULL AND {sql} = ?)", (_given(operand),)
        (stored,) = filed((operand,))
        # `NOT NULL` says the same, and admits the indexes that leave out what has none.
        sql = f"({field} IS NOT NULL AND {field} = ?"
        if len(stored) < LONGEST_INDEXED and NUL not in stored:
            return f"{sql})", (stored,)
        return f"{sql} AND coalesce({_in_body(field)} = ?, FALSE))", (stored, _given(operand))

    def among(self, field: str, operands: Sequence[Operand]) -> Part:
        parts = [self.same(field, operand) for operand in operands]
        return (
            f"({' OR '.join(sql for sql, _ in parts)})",
            [value for _, values in parts for value in values],
        )

    def ordered(self, field: str, operator: str, operand: Operand) -> Part:
        sql = _read(field)
        if field in _TEXTS and len(str(operand)) >= LONGEST_INDEXED:
            # What is shorter stands before or after what was cut as it does before or after all of it.
            cut = f"length({field}) >= {LONGEST_INDEXED}"
            sql = f"(CASE WHEN {cut} THEN coalesce({_in_body(field)}, {field}) ELSE {field} END)"
        collated = f'{sql} COLLATE "C"' if isinstance(operand, str) else sql
        return f"({sql} IS NOT NULL AND {collated} {operator} ?)", (_given(operand),)

    def holds(self, field: str, text: str) -> Part:
        if field not in _TEXTS:
            shown = _OTHERS.get(field)
            sql = f"CAST({shown} AS TEXT)" if shown else _shown(field)
            return f"(coalesce(position(? IN {sql}), 0) > 0)", (text,)
        cut = f"length({field}) >= {LONGEST_INDEXED}"
        sql = (
            f"(coalesce(position(? IN {field}), 0) > 0"
            f" OR ({cut} AND coalesce(position(? IN {_in_body(field)}), 0) > 0))"
        )
        return sql, (text, text)

    def some(
        self, field: str, names: Sequence[str], operator: str, operands: Sequence[str]
    ) -> Part:
        joined = [f"words.each_1(words.member_1(body, '{field}')) AS m0 (v)"]
        parameters: list[Operand] = []
        for depth, name in enumerate(names):
            joined.append(f"words.each_1(m{depth}.v -> CAST(? AS TEXT)) AS m{depth + 1} (v)")
            parameters.append(name)
        last = f"m{len(names)}.v"
        holds = f"json_typeof({last}) <> 'null'"
        if operands:
            sql, values = _compared(last, operator, operands)
            holds += f" AND {sql}"
            parameters.extend(values)
        return f"EXISTS (SELECT FROM {' CROSS JOIN '.join(joined)} WHERE {holds})", parameters

    def words(self, words: Sequence[str], *, indexed: bool) -> Part:
        asked = " ".join(words)
        if not indexed:
            return "words.holds_1(body, ?)", (asked,)
        # Letters and digits alone are one word, which needs no look at what stands beside it.
        plain = all(word.removesuffix("*").isalnum() for word in words)
        beside = "" if plain else " AND words.beside_1(r.said, ?)"
        sql = (
            "EXISTS (SELECT FROM words.reasons AS r WHERE r.leaf_index = audit.leaf_index"
            f" AND r.lexemes @@ words.query_1(?){beside})"
        )
        return sql, (asked,) if plain else (asked, asked)


POSTGRES: Final = PostgresDialect()


def _place(field: str) -> str:
    """Return SQL that is NULL where a record has no such field."""
    if field in _TEXTS:
        return field
    return _OTHERS.get(field) or f"words.member_1(body, '{field}')"


def _read(field: str) -> str:
    """Return SQL of the field's value, to be compared with one of its type."""
    if field in _TEXTS or field in _OTHERS:
        return _place(field)
    number = FIELDS[field][1] is Type.NUMBER
    return f"words.number_1({_place(field)})" if number else _in_body(field)


def _in_body(field: str) -> str:
    return f"words.text_1(words.member_1(body, '{field}'))"


def _shown(field: str) -> str:
    """Return SQL of the field as a text: of a structure, its JSON."""
    return f"coalesce(words.atom_1({_place(field)}), CAST({_place(field)} AS TEXT))"


def _compared(last: str, operator: str, operands: Sequence[str]) -> Part:
    if operator not in OPERATORS:
        raise ValueError(f"no operator {operator!r}")
    if operator == "=":
        return f"words.atom_1({last}) IN ({', '.join('?' * len(operands))})", operands
    if operator == "~":
        return f"position(? IN words.atom_1({last})) > 0", operands[:1]
    number = number_in(operands[0])
    if number is None:
        return f'words.text_1({last}) COLLATE "C" {operator} ?', operands[:1]
    return f"words.number_1({last}) {operator} ?", (number,)


def _given(operand: Operand) -> Operand:
    """Return it so that an index of whole numbers can be asked for it."""
    return int(operand) if isinstance(operand, float) and operand.is_integer() else operand
