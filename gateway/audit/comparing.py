"""Turns a filter's expression into SQL, in the words of a database."""

from collections.abc import Callable, Sequence

from gateway.audit import members
from gateway.audit.dialect import Dialect, Part
from gateway.audit.expression import Comparison, Expression, Junction, Membership, Negation
from gateway.audit.fields import CONTENT, FIELDS, LISTED, Type
from gateway.audit.members import Operand
from gateway.audit.moments import QueryError, time_us

HashesOf = Callable[[str], Sequence[str]]
"""The keyed hashes that stand in records for a value."""


class Compiler:
    """Turns an expression into SQL that is true or false and never NULL, so that `not` means not."""

    def __init__(
        self,
        parameters: list[Operand],
        now: float,
        hashes_of: HashesOf,
        dialect: Dialect,
        *,
        indexed: bool,
    ) -> None:
        self._parameters = parameters
        self._now = now
        self._hashes_of = hashes_of
        self._dialect = dialect
        self._indexed = indexed
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

    def _spelled(self, part: Part) -> str:
        sql, values = part
        self._parameters.extend(values)
        return sql

    def _among(self, membership: Membership) -> str:
        name = membership.field
        root, _, path = name.partition(".")
        if path:
            return self._member(root, path, "=", membership.operands)
        kind = _type(name)
        operands = [_operand(name, kind, operand, self._now) for operand in membership.operands]
        return self._spelled(self._dialect.among(name, operands))

    def _comparison(self, comparison: Comparison) -> str:
        name, operator, text = comparison.field, comparison.operator, comparison.operand
        root, _, path = name.partition(".")
        if text is None and operator not in {"=", "!="}:
            raise QueryError(f"{name}: null is compared by = or !=")
        if operator == "match":
            return self._words(name, text or "")
        if path:
            return self._path(root, path, operator, text)
        kind = _type(name)
        if operator == "~":
            return self._spelled(self._dialect.holds(name, text or ""))
        if text is None:
            found = self._dialect.missing(name)
        else:
            operand = _operand(name, kind, text, self._now)
            if operator not in {"=", "!="}:
                return self._spelled(self._dialect.ordered(name, operator, operand))
            found = self._spelled(self._dialect.same(name, operand))
        return found if operator == "=" else f"(NOT {found})"

    def _path(self, root: str, path: str, operator: str, operand: str | None) -> str:
        if operand is None:
            there = self._member(root, path, "=", ())
            return there if operator == "!=" else f"(NOT {there})"
        if operator == "!=":
            return f"(NOT {self._member(root, path, '=', (operand,))})"
        return self._member(root, path, operator, (operand,))

    def _member(self, root: str, path: str, operator: str, operands: Sequence[str]) -> str:
        if _type(root) is not Type.STRUCTURE:
            raise QueryError(f"{root} has no members")
        names = members.steps(path)

        def here(at: Sequence[str], by: str, those: Sequence[str]) -> str:
            return self._spelled(self._dialect.some(root, at, by, those))

        if root not in CONTENT or operator != "=":
            return here(names, operator, operands)
        hashes = [one for each in operands for one in self._hashes_of(each)]
        plain = here(names, "=", [*operands, *hashes])
        if names != ("value",) or not hashes:
            return plain
        # Where a destination may not be read, its hash stands under a name of its own.
        return f"({plain} OR {here(('value_hmac',), '=', hashes)})"

    def _words(self, name: str, operand: str) -> str:
        if name != "reasons":
            raise QueryError("match searches reasons only; elsewhere there is ~")
        words = operand.replace("\0", " ").split()
        if not words:
            raise QueryError("match needs a word")
        self.words = True
        return self._spelled(self._dialect.words(words, indexed=self._indexed))


def _type(name: str) -> Type:
    if name not in FIELDS:
        raise QueryError(f"no field {name!r} ({LISTED})")
    return FIELDS[name][1]


def _operand(name: str, kind: Type, operand: str, now: float) -> Operand:
    match kind:
        case Type.TEXT:
            return operand
        case Type.TIME:
            return time_us(operand, now)
        case Type.NUMBER:
            number = members.number_in(operand)
            if number is None:
                raise QueryError(f"{name} is a number, not {operand!r}")
            return number
        case Type.STRUCTURE:
            raise QueryError(
                f"{name} is not one value: name a member ({name}.NAME), search it with ~, or "
                "compare with null"
            )
