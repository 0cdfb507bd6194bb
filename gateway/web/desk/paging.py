"""One page of many rows, and where the next one begins: by a row, so that nothing shifts."""

from collections.abc import Callable, Iterable, Sequence

from gateway.admin.rows import Row
from gateway.domain._value import value

SIZE = 50


@value
class Piece:
    rows: Sequence[Row]
    next: str | None
    """What to ask for to go on; `None` where this is the end."""
    size: int = SIZE


def piece_of(
    rows: Iterable[Row], place: Callable[[Row], str], after: str | None, *, last_first: bool = False
) -> Piece:
    """Return the rows that come after the place `after`, in the order of places or against it."""
    ordered = sorted(rows, key=place, reverse=last_first)
    left = [row for row in ordered if not after or (place(row) > after) is not last_first]
    left = [row for row in left if place(row) != after]
    shown = left[:SIZE]
    return Piece(rows=shown, next=place(shown[-1]) if len(left) > SIZE else None)
