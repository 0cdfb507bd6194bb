"""Records of the log as a line each: in a table, or as they come."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from gateway.admin.names import Names
from gateway.cli.output import Column, cell, cut
from gateway.cli.units import clock

_FIXED = {"leaf_index": 6, "time": 14, "kind": 8, "principal": 12, "target": 18, "verdict": 5}
"""Columns of a screen for each where a line must be laid out before the next one is known."""


def columns_of(names: Names) -> Sequence[Column]:
    """Return the columns of a table of records, people and clients by their names."""
    return (
        Column(name="leaf_index", head="leaf", whole=True),
        Column(name="time", told=clock, whole=True),
        Column(name="kind"),
        Column(name="principal", of=names.told()),
        Column(name="target", of=_target),
        Column(name="verdict"),
        Column(name="code", of=_code),
        *(Column(name=name, wide=True) for name in ("id", "client", "run", "decision_id")),
    )


def _target(record: Mapping[str, Any]) -> str | None:
    return "/".join(filter(None, (record.get("server"), record.get("target")))) or None


def _code(record: Mapping[str, Any]) -> str | None:
    """Return what a record says went wrong; what the server itself refused, by its HTTP status."""
    status = record.get("upstream_status") or 0
    told = f"upstream {status}" if status >= HTTPStatus.BAD_REQUEST else None
    return record.get("code") or told


def line_of(record: Mapping[str, Any], names: Names, most: int | None) -> str:
    """Return a record as one line of at most `most` columns of a screen, if it can be."""
    shown = [one for one in columns_of(names) if not one.wide]
    if most is None:
        return "  ".join(one.text(record, wide=True) for one in columns_of(names))
    first = shown[:-1]
    padded = [cut(one.text(record, wide=False), _FIXED[one.name]) for one in first]
    line = " ".join([*padded, cell(_code(record))])
    return cut(line, most).rstrip()
