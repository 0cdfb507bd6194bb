"""What goes with a record into the tray: columns of the one statement that keeps it."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.audit.record import Entry
from gateway.domain._value import value
from gateway.domain.flow import RunId, Source
from gateway.domain.labels import Label
from gateway.domain.premises import NOTHING, Premises, Uses
from gateway.storage.pin_table import identity_of
from gateway.storage.postgres.arrays import Array, Flags, Levels, Numbers, Octets, Texts

LONGEST_INDEXED: Final = 512
"""Characters of a column: what an index cannot hold is not to stop the log."""

NUL: Final = "\u2400"
"""Stands in a column for the character that PostgreSQL cannot hold; the body has it as it was."""

_TYPES: Final[Sequence[type[Array]]] = (
    # n; id, time_us, kind, principal, server, target, verdict, code, run, decision_id; body
    Numbers, Texts, Numbers, *(Texts,) * 8, Octets,
    # run and its version, policy, people; the definition, and the pin's name; a yes; what stands
    Texts, Numbers, Texts, Numbers, *(Texts,) * 3, Octets, *(Texts,) * 4,
    # what is used up: a program's call, of which grants, and a yes
    *(Texts,) * 3,
    # what is raised: the run, its parts, its label; the source, and its label
    Texts, Flags, Levels, Levels, *(Texts,) * 3, Levels, Levels,
)  # fmt: skip

PUT: Final = f"SELECT * FROM put_1(%s, {', '.join(['%s'] * len(_TYPES))})"  # noqa: S608 - fixed text

_NO_PREMISES: Final = (None,) * 12
_NO_USES: Final = (None,) * 3
_NO_RAISE: Final = (None,) * 9
_NO_GRANT: Final = -1


@value
class Raise:
    """What a result makes of its run, and of its principal's whole run; see `RunStore.raise_label`."""

    run: RunId
    label: Label
    source: Source | None = None
    everywhere: bool = False
    """Whether the parts of the whole run have seen it, too."""


@value
class Terms:
    """On what terms a record is kept."""

    premises: Premises | None = None
    uses: Uses = NOTHING
    raises: Raise | None = None


FREELY: Final = Terms()


def filed(columns: Sequence[Any]) -> tuple[Any, ...]:
    """Return the columns of a record as they can be searched here; its body has all of each."""
    return tuple(
        one.replace("\0", NUL)[:LONGEST_INDEXED] if isinstance(one, str) else one for one in columns
    )


def row(entry: Entry, terms: Terms) -> tuple[Any, ...]:
    """Return what a batch has of one record."""
    return (
        *filed(entry.columns),
        entry.body,
        *(_NO_PREMISES if terms.premises is None else _premises(terms.premises)),
        *(_NO_USES if terms.uses is NOTHING else _uses(terms.uses)),
        *(_NO_RAISE if terms.raises is None else _raise(terms.raises)),
    )


def arguments(first: int, rows: Sequence[tuple[Any, ...]]) -> list[Array]:
    """Return a batch as the arguments of `PUT`, its records numbered from `first` on.

    What none of them has is not sent: whoever is asked for the rest of a shorter array says NULL.
    """
    columns = [range(first, first + len(rows)), *zip(*rows, strict=True)]
    return [
        kind(column if any(one is not None for one in column) else ())
        for kind, column in zip(_TYPES, columns, strict=True)
    ]


def _premises(premises: Premises) -> tuple[Any, ...]:
    # A run is at home where something was said or shown in it: a handshake, which comes before a client
    # has a session to be known by, may be anywhere.
    run = premises.run if premises.carries else None
    judged = (run, premises.version, premises.policy, premises.people)
    pinned, profile = premises.pinned, premises.profile
    said = (premises.yes, " ".join(premises.standing) or None)
    if pinned is None:
        return (*judged, *(None,) * 6, *said)
    # A definition without a profile has no pin: it is looked for under no name, and not found.
    server, kind, name, of = (
        ("",) * 4 if profile is None else identity_of((pinned.pin.target, profile))
    )
    manifest = pinned.manifest
    octets = name.encode("utf-8", "surrogatepass")
    pin = (str(manifest.digest), server, kind, octets, of, manifest.identity)
    return (*judged, *pin, *said)


def _uses(uses: Uses) -> tuple[Any, ...]:
    if uses.script is None:
        return (None, None, uses.yes)
    grants = " ".join(str(_NO_GRANT if one is None else one) for one in uses.grants)
    return (uses.script, grants, uses.yes)


def _raise(raised: Raise) -> tuple[Any, ...]:
    source = raised.source
    return (
        raised.run,
        raised.everywhere,
        *_levels(raised.label),
        *(
            (None,) * 5
            if source is None
            else (source.server, source.tool.replace("\0", NUL), source.record)
        ),
        *(() if source is None else _levels(source.label)),
    )


def _levels(label: Label) -> tuple[int, int]:
    return int(label.integrity), int(label.confidentiality)
