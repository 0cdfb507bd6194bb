"""The desk's pages of definitions: what a server shows, what changed of it, and who approves that."""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, unquote

import orjson
from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.pin_rows import alike_in_profiles, how_bad
from gateway.admin.rows import Row, Rows
from gateway.errors import BadCommand
from gateway.pins.tiers import Tier
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.paging import SIZE, piece_of
from gateway.web.words import href

_PATH = "/desk/pins"
_ONE, _TOGETHER = "desk-pin", "desk-pins"
_HARMLESS = frozenset({Tier.COSMETIC.value, Tier.TEXT.value})
_DAY_S = 86_400.0


class PinPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        route = self._frame.route
        return [
            route("/pins", get=self._waiting),
            route("/pins/all", get=self._all),
            route("/pins/one", get=self._one, post=self._decide),
            route("/pins/lock", get=self._lock),
            route("/pins/together", get=self._together, post=self._approve),
        ]

    async def _waiting(self, guest: Guest) -> Response:
        """Show what waits for a decision, worst first."""
        server = guest.query.get("server") or None
        rows = await self._told(guest, "pins.review", server=server)
        piece = piece_of(rows, _badness, guest.query.get("after"))
        return await self._frame.page(
            guest,
            "pins.html",
            room="pins",
            piece=piece,
            server=server,
            waiting=sorted({row["server"] for row in rows}),
            changed=None if server or guest.query.get("after") else len(rows),
        )

    async def _all(self, guest: Guest) -> Response:
        """Show every definition that a server shows, or that any does, in one status or any."""
        server, status = guest.query.get("server") or None, guest.query.get("status") or None
        rows = await self._frame.ask(guest, "pins.list", server=server, status=status)
        piece = piece_of(rows, _name, guest.query.get("after"))
        return await self._frame.page(
            guest, "catalogue.html", room="pins", piece=piece, server=server, status=status
        )

    async def _one(self, guest: Guest) -> Response:
        """Show how one definition differs from what was approved, or all of a new one."""
        asked = _asked(guest.query)
        rows = await self._told(guest, "pins.diff", **asked)
        return await self._frame.page(
            guest,
            "pin.html",
            room="pins",
            rows=[{**row, "csrf": guest.visit.token(_ONE, *_bound(row))} for row in rows],
            asked=asked,
        )

    async def _decide(self, guest: Guest) -> Response:
        form = guest.form
        pin = {name: form.get(name, "") for name in ("server", "kind", "name", "profile")}
        seen = {name: form.get(name, "") for name in ("digest", "address")}
        note = form.get("note", "")
        revokes = form.get("action") == "revoke"
        self._frame.require_change(guest, _ONE, *pin.values(), *seen.values(), ends=revokes)
        match form.get("action"):
            case "approve":
                reviewed = {"kind": pin["kind"], "name": pin["name"], **seen}
                await self._frame.ask(
                    guest,
                    "pins.approve",
                    server=pin["server"],
                    reviewed=[{**reviewed, "profile": each} for each in _profiles(pin["profile"])],
                    note=note,
                    expires_s=_holds(form.get("holds", "")),
                )
            case "revoke":
                if not note.strip():
                    raise BadCommand("Say why it is revoked, in the note.")
                for each in _profiles(pin["profile"]):
                    said = {**pin, "profile": each}
                    await self._frame.ask(guest, "pins.revoke", **said, note=note)
            case _:
                raise BadCommand("This form says neither that it is approved nor that it is not.")
        return self._frame.go(
            href(f"{_PATH}/one", server=pin["server"], kind=pin["kind"], name=pin["name"])
        )

    async def _together(self, guest: Guest) -> Response:
        """Show all that waits of one server again, each with a tick of its own."""
        server = guest.query.get("server", "")
        rows = await self._told(guest, "pins.review", server=server)
        shown = [{**row, "ticked": is_harmless(row), "tick": _tick(row)} for row in rows[:SIZE]]
        return await self._frame.page(
            guest,
            "together.html",
            room="pins",
            server=server,
            rows=shown,
            more=len(rows) - len(shown),
            csrf=guest.visit.token(_TOGETHER, server, *_shown(shown)),
            shown=" ".join(_shown(shown)),
        )

    async def _approve(self, guest: Guest) -> Response:
        """Approve what was ticked of what was shown."""
        form = guest.form
        server, shown = form.get("server", ""), form.get("shown", "").split()
        self._frame.require_change(guest, _TOGETHER, server, *shown)
        if form.get("action") != "approve":
            return self._frame.go(href(_PATH, server=server))
        ticked = [
            one for name, told in form.items() if name.startswith("pin") for one in _read(told)
        ]
        if not ticked:
            raise BadCommand("Nothing was ticked, and nothing was approved.")
        if not {_seen(one["digest"], one["address"]) for one in ticked} <= set(shown):
            raise BadCommand("This was not on the page.")
        await self._frame.ask(
            guest, "pins.approve", server=server, reviewed=ticked, note=form.get("note", "")
        )
        return self._frame.go(href(_PATH, server=server))

    async def _told(self, guest: Guest, command: str, **asked: str | None) -> Rows:
        """Return the rows of a command, each told once: beside the event loop, for they are many."""
        return await asyncio.to_thread(told_once, await self._frame.ask(guest, command, **asked))

    async def _lock(self, guest: Guest) -> Response:
        """Give out the lock file of everything that is approved."""
        lock = await self._frame.ask(guest, "pins.export")
        content = orjson.dumps(lock, option=orjson.OPT_INDENT_2)
        return self._frame.file(content, "douane.lock.json", "application/json")


def is_harmless(row: Row) -> bool:
    """Whether a tick beside it may be there beforehand: a change of looks or of words, no hint.

    Nor may its server be at another address.
    """
    return row["tier"] in _HARMLESS and not row["findings"] and row["moved_to"] is None


def told_once(rows: Rows) -> Rows:
    """Return rows with one for both families of revisions, where they show the same.

    Its `profile` names both, for a form, and `seen_in` for people.
    """
    return [
        {**row, "profile": ",".join(row["profiles"]), "seen_in": " and ".join(row["profiles"])}
        for row in alike_in_profiles(rows)
    ]


def _profiles(told: str) -> list[str]:
    return told.split(",")


def _asked(query: Mapping[str, str]) -> dict[str, str | None]:
    named = {name: query.get(name, "") for name in ("server", "name")}
    return {**named, "kind": query.get("kind") or None}


def _bound(row: Row) -> tuple[str, ...]:
    named = row["server"], row["kind"], row["name"], row["profile"]
    return (*named, row["observed_digest"], row["observed_address"])


def _shown(rows: Rows) -> list[str]:
    return [_seen(row["observed_digest"], row["observed_address"]) for row in rows]


def _seen(digest: str, address: str) -> str:
    """Return one word for a definition and the address at which it is shown."""
    return f"{digest}@{quote(address)}"


def _tick(row: Row) -> str:
    seen = _seen(row["observed_digest"], row["observed_address"])
    return f"{seen} {row['kind']} {row['profile']} {row['name']}"


def _read(told: str) -> Rows:
    """Read what stands behind a tick: what was seen, kind, profiles, and the name, which may hold anything."""
    parts = told.split(" ", 3)
    if len(parts) != len(_PARTS):
        raise BadCommand("This form cannot be read.")
    one = dict(zip(_PARTS, parts, strict=True))
    digest, _, address = one.pop("seen").partition("@")
    seen = {**one, "digest": digest, "address": unquote(address)}
    return [{**seen, "profile": each} for each in _profiles(one["profile"])]


_PARTS = ("seen", "kind", "profile", "name")


def _holds(days: str) -> float | None:
    if not days:
        return None
    if not days.isascii() or not days.isdigit() or len(days) > len("9999"):
        raise BadCommand("An approval holds for so many days, or until it is revoked.")
    return int(days) * _DAY_S


def _badness(row: Row) -> str:
    calm, mildness, explained, reach, *named = how_bad(row)
    return "|".join([f"{calm:d}{9 + mildness}{explained:d}{9 + reach}", *named])


def _name(row: Row) -> str:
    return "|".join(row[part] for part in ("server", "kind", "name", "profile"))
