"""The desk's smaller rooms: policy, people and clients, servers, alerts, answers that stand."""

from starlette.responses import Response
from starlette.routing import Route

from gateway.errors import BadCommand, NotFound
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.now import worst_first
from gateway.web.desk.paging import piece_of
from gateway.web.desk.rooms import OF_THE_LOG

_SPANS = ("1h", "24h", "7d")
_MOST_REPLAYED = 2_000
"""Decisions of one replay at the desk, which is answered in one page."""
_REPLAY = "desk-replay"


class OtherPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        route = self._frame.route
        return [
            route("/policy", get=self._policy),
            route("/policy/replay", get=self._offer, post=self._replay),
            route("/policy/check", get=self._check),
            route("/people", get=self._people),
            route("/people/clients", get=self._clients),
            route("/people/one", get=self._person),
            route("/servers", get=self._servers),
            route("/servers/labels", get=self._labels),
            route("/alerts", get=self._alerts),
        ]

    async def _policy(self, guest: Guest) -> Response:
        """Show what decides, which of its rules refused, and whether everything is stopped."""
        ask = self._frame.ask
        refusals = None
        if not guest.person.roles.isdisjoint(OF_THE_LOG):
            refusals = await ask(
                guest, "audit.ask", question="denied-by-rule", since="7d", limit=200
            )
        return await self._frame.page(
            guest,
            "policy.html",
            room="policy",
            policy=await ask(guest, "policy.status"),
            stopped=await ask(guest, "policy.stopped"),
            refusals=refusals,
            rules=await ask(guest, "policy.rules"),
            fired={row["rule"] or row["code"] for row in refusals["rows"]} if refusals else set(),
        )

    async def _check(self, guest: Guest) -> Response:
        """Compile the files in the configured place, which need not be in force yet."""
        found = await self._frame.ask(guest, "policy.check")
        return await self._frame.page(guest, "check.html", room="policy", found=found)

    async def _offer(self, guest: Guest) -> Response:
        return await self._replayed(guest, None, "24h")

    async def _replay(self, guest: Guest) -> Response:
        """Put recorded decisions to the files in the configured place; nothing is changed by it."""
        since = guest.form.get("since", "")
        guest.visit.require_token(_REPLAY)
        if since not in _SPANS:
            raise BadCommand("A replay here goes back an hour, a day or a week.")
        rows = await self._frame.ask(guest, "policy.replay", since=since, limit=_MOST_REPLAYED)
        return await self._replayed(guest, rows, since)

    async def _replayed(
        self, guest: Guest, rows: list[dict[str, object]] | None, since: str
    ) -> Response:
        found = rows or []
        return await self._frame.page(
            guest,
            "replay.html",
            room="policy",
            spans=_SPANS,
            since=since,
            changed=[row for row in found if row["finding"] == "changed"][:100],
            summary=found[-1] if found else None,
            csrf=guest.visit.token(_REPLAY),
        )

    async def _people(self, guest: Guest) -> Response:
        rows = await self._frame.ask(guest, "users.list")
        piece = piece_of(rows, lambda row: str(row["user"]), guest.query.get("after"))
        return await self._frame.page(guest, "people.html", room="people", piece=piece)

    async def _person(self, guest: Guest) -> Response:
        """Show what is somebody's: browsers, grants, connections."""
        user, ask = guest.query.get("user", ""), self._frame.ask
        everybody = await ask(guest, "users.list")
        row = next((one for one in everybody if one["user_id"] == user), None)
        if row is None:
            raise NotFound("there is no such person any more")
        return await self._frame.page(
            guest,
            "person.html",
            room="people",
            row=row,
            sessions=await ask(guest, "sessions.list", user=user),
            grants=await ask(guest, "grants.list", user=user),
            connections=await ask(guest, "connections.list", user=user),
        )

    async def _clients(self, guest: Guest) -> Response:
        rows = await self._frame.ask(guest, "clients.list")
        piece = piece_of(
            rows, lambda row: f"{row['name']}|{row['client_id']}", guest.query.get("after")
        )
        return await self._frame.page(guest, "clients.html", room="people", piece=piece)

    async def _servers(self, guest: Guest) -> Response:
        rows = worst_first(await self._frame.ask(guest, "servers.list"))
        return await self._frame.page(guest, "servers.html", room="servers", rows=rows)

    async def _labels(self, guest: Guest) -> Response:
        """Show the labels that a server's definitions suggest, to copy into the configuration."""
        server = guest.query.get("server", "")
        found = await self._frame.ask(guest, "servers.suggest_labels", server=server)
        return await self._frame.page(
            guest, "labels.html", room="servers", server=server, found=found
        )

    async def _alerts(self, guest: Guest) -> Response:
        ask = self._frame.ask
        return await self._frame.page(
            guest,
            "alerts.html",
            room="alerts",
            webhooks=await ask(guest, "alerts.list"),
            known=await ask(guest, "alerts.state"),
        )
