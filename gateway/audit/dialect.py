"""How a filter's comparisons are spelled in SQL: databases read JSON and compare each in their words."""

from collections.abc import Sequence
from typing import Final, Protocol

from gateway.audit import members
from gateway.audit.fields import FIELDS
from gateway.audit.members import Operand
from gateway.audit.words import in_index, in_record

Part = tuple[str, Sequence[Operand]]
"""SQL, and the values of its placeholders, which are question marks."""


class Dialect(Protocol):
    """Each part is true or false of a record and never NULL, so that `not` means not.

    `field` is a name in `FIELDS`, and nothing else of what a caller says becomes SQL.
    """

    def missing(self, field: str) -> str:
        """Whether the record has none."""
        ...

    def chosen(self, field: str, text: str) -> Part:
        """Whether it is that, so that an index leads to it; of what has none it may be NULL."""
        ...

    def same(self, field: str, operand: Operand) -> Part:
        """Whether it is that."""
        ...

    def among(self, field: str, operands: Sequence[Operand]) -> Part:
        """Whether it is one of these."""
        ...

    def ordered(self, field: str, operator: str, operand: Operand) -> Part:
        """Whether it is less than that, or more, by `operator`."""
        ...

    def holds(self, field: str, text: str) -> Part:
        """Whether `text` stands in it; of a structure, in its JSON."""
        ...

    def some(
        self, field: str, names: Sequence[str], operator: str, operands: Sequence[str]
    ) -> Part:
        """Whether a value at `names` below a structure compares so; see `members.some`."""
        ...

    def words(self, words: Sequence[str], *, indexed: bool) -> Part:
        """Whether the record's reasons have all of these words; `indexed`, by the index of words."""
        ...


class SqliteDialect:
    """SQLite's."""

    def missing(self, field: str) -> str:
        return f"({_sql(field)} IS NULL)"

    def chosen(self, field: str, text: str) -> Part:
        return f"{_sql(field)} = ?", (text,)

    def same(self, field: str, operand: Operand) -> Part:
        return f"({_sql(field)} IS ?)", (operand,)

    def among(self, field: str, operands: Sequence[Operand]) -> Part:
        return f"ifnull({_sql(field)} IN ({', '.join('?' * len(operands))}), 0)", operands

    def ordered(self, field: str, operator: str, operand: Operand) -> Part:
        sql = _sql(field)
        return f"({sql} IS NOT NULL AND {sql} {operator} ?)", (operand,)

    def holds(self, field: str, text: str) -> Part:
        return f"(ifnull(instr(CAST({_sql(field)} AS TEXT), ?), 0) > 0)", (text,)

    def some(
        self, field: str, names: Sequence[str], operator: str, operands: Sequence[str]
    ) -> Part:
        return members.some(field, names, operator, operands)

    def words(self, words: Sequence[str], *, indexed: bool) -> Part:
        return (in_index if indexed else in_record)(words)


def _sql(field: str) -> str:
    return FIELDS[field][0]


SQLITE: Final = SqliteDialect()
