"""Members of a record's structures in a filter: `arguments.to = x`, `destinations.proof = none`.

A list on the way is looked through: the comparison holds if it does for one of the values there.
"""

import re
from collections.abc import Sequence
from math import isnan

_MEMBER = re.compile(r"[\w$@:/-]{1,100}")
_DEEPEST = 6
OPERATORS = frozenset({"=", "<", "<=", ">", ">=", "~"})

Operand = str | int | float


def steps(path: str) -> tuple[str, ...]:
    """Return the names in a path below a structure: `to` of `arguments.to`.

    Raises:
        ValueError: One of them cannot be a member's name here.

    """
    names = tuple(path.split("."))
    if len(names) > _DEEPEST:
        raise ValueError(f"a path has at most {_DEEPEST} members below the field")
    for name in names:
        if not _MEMBER.fullmatch(name):
            raise ValueError(f"not a member's name: {name!r}")
    return names


def some(
    field: str, names: Sequence[str], operator: str, operands: Sequence[str]
) -> tuple[str, list[Operand]]:
    """Return SQLite's SQL, 0 or 1, of whether a value at `names` below `field` compares with an operand.

    `field` is a fixed name; whatever else the caller was given is among the parameters. Without
    operands it is whether there is a value at all.

    Raises:
        ValueError: The operator is none of these.

    """
    below, last = "body", ""
    joined: list[str] = []
    parameters: list[Operand] = []
    for depth, name in enumerate((field, *names)):
        last = f"m{depth}"
        found = f"json_extract({below}, ?)"
        joined.append(
            f"json_each(CASE json_type({below}, ?) WHEN 'array' THEN {found}"
            f" ELSE json_array({found}) END) AS {last}"
        )
        parameters += [f'$."{name}"'] * 3
        below = f"CASE {last}.type WHEN 'object' THEN {last}.value ELSE '{{}}' END"
    holds = f"{last}.type <> 'null'"
    if operands:
        holds += f" AND {_compared(last, operator, operands, parameters)}"
    sql = f"EXISTS (SELECT 1 FROM {' JOIN '.join(joined)} WHERE {holds})"  # noqa: S608 - no text of the caller's
    return sql, parameters


def _compared(last: str, operator: str, operands: Sequence[str], parameters: list[Operand]) -> str:
    if operator not in OPERATORS:
        raise ValueError(f"no operator {operator!r}")
    text = f"CAST({last}.atom AS TEXT)"
    if operator == "=":
        parameters.extend(operands)
        return f"{text} IN ({', '.join('?' * len(operands))})"
    if operator == "~":
        parameters.append(operands[0])
        return f"instr({text}, ?) > 0"
    number = number_in(operands[0])
    parameters.append(operands[0] if number is None else number)
    kinds = "('text')" if number is None else "('integer', 'real')"
    return f"{last}.type IN {kinds} AND {last}.atom {operator} ?"


def number_in(text: str) -> float | None:
    """Return the number that a text spells; `None` if it is none, or none that can be compared."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if isnan(number) else number
