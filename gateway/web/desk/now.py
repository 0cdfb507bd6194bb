"""The desk's first page: what needs me, and whether anything is wrong."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.rows import Rows
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.pins import told_once
from gateway.web.desk.rooms import OF_THE_LOG

_MOST = 5


class NowPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [self._frame.route("", get=self._now)]

    async def _now(self, guest: Guest) -> Response:
        """Show what waits and what is wrong; reading the record for it is one read."""
        ask = self._frame.ask
        waiting = [row for row in await ask(guest, "approvals.list") if not row["void"]]
        waiting.sort(key=lambda row: row["expires_at"])
        pins = told_once(await ask(guest, "pins.review"))
        servers: Rows = await ask(guest, "servers.list")
        return await self._frame.page(
            guest,
            "now.html",
            room="now",
            waiting=waiting[:_MOST],
            names=await self._frame.names(guest, waiting[:_MOST]),
            asked=len(waiting),
            pins=pins[:_MOST],
            changed=len(pins),
            tiers=Counter(row["tier"] for row in pins),
            servers=worst_first(servers),
            ill=[row for row in servers if row["status"] == "failing"],
            altered=sum(bool(row["changed"]) for row in servers),
            policy=await ask(guest, "policy.status"),
            stopped=await ask(guest, "policy.stopped"),
            **await self._of_the_log(guest),
        )

    async def _of_the_log(self, guest: Guest) -> Mapping[str, Any]:
        """Return what the record says of the last day, to whoever may read it."""
        if guest.person.roles.isdisjoint(OF_THE_LOG):
            none = dict.fromkeys(("refusals", "evidence", "verified"))
            return {**none, "exports": [], "webhooks": []}
        ask = self._frame.ask
        refusals = await ask(guest, "audit.ask", question="denied-by-rule", since="24h")
        return {
            "refusals": refusals,
            "evidence": await ask(guest, "audit.evidence"),
            "verified": await ask(guest, "audit.verified"),
            "exports": await ask(guest, "audit.exports"),
            "webhooks": await ask(guest, "alerts.list"),
        }


def worst_first(servers: Rows) -> Rows:
    """Return servers in this order: those that do not answer, those that have changed, the others."""
    return sorted(
        servers, key=lambda row: (row["status"] == "ok", not row["changed"], row["server"])
    )
