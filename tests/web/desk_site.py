"""The desk over every use case and real stores, and people of every role in front of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute, Router

from gateway.admin import Admin
from gateway.admin.people import person_of
from gateway.admin.person import How
from gateway.domain.approvals import ApprovalRules
from gateway.storage.store import Store
from gateway.web.cookies import BrowserCookies
from gateway.web.desk import desk_routes
from gateway.web.desk.entrance import Entrance, OwnSessions
from gateway.web.desk.frame import Frame, elsewhere
from gateway.web.desk.streams import Streams
from gateway.web.pages import Pages
from gateway.web.visits import Visits
from tests.admin.test_approval_desk import question
from tests.admin.world import NOW, opened, roles_of
from tests.signin.browser import Browser, Page
from tests.signin.house import HTTP, House
from tests.storage.memory_people import MemoryApprovalStore

PEOPLE = {
    "uma": frozenset({"users"}),
    "ada": frozenset({"users", "security"}),
    "otto": frozenset({"users", "auditors"}),
    "root": frozenset({"users", "admins"}),
}
"""Somebody who only makes calls, an approver, an auditor, an administrator."""


class DeskHouse(House):
    """One with a desk."""

    admin: Admin
    store: Store
    approvals: MemoryApprovalStore
    others: Sequence[BaseRoute] = ()
    streams: Streams

    def open_desk(self, *, read_only: bool = False, enabled: bool = True) -> None:
        """Put the desk's routes beside those of sign-in."""
        cookies = BrowserCookies(
            self.names, lambda scope: scope["client"][0], random=self.random, session_s=3600
        )
        visits = Visits(
            Pages(),
            cookies,
            origin=self.url,
            journal=self.journal,
            user_of=self.sessions.user_of,
        )
        frame = self.frame(visits, OwnSessions(self.sessions), read_only=read_only)
        routes = [*(desk_routes(frame) if enabled else []), *elsewhere(visits, frame)]
        if not self.others:
            self.others = [*self.app.routes, *visits.assets]
        self.app = Router([*self.others, *routes], redirect_slashes=False)

    def frame(self, visits: Visits, entrance: Entrance, *, read_only: bool = False) -> Frame:
        """Return what every page at an entrance has in common."""
        self.streams = Streams()
        return Frame(
            visits,
            entrance,
            person_of=lambda user: person_of(user, How.PAGE, issuer=self.url, roles_of=roles_of),
            commands=lambda: self.admin.commands,
            read_only=read_only,
            nobody_yet=lambda: self.sign_in.nobody_yet,
            clock=self.clock,
            streams=self.streams,
        )

    async def ask(self, name: str = "a", **changes: Any) -> None:
        """Have a question wait."""
        await self.approvals.file(question(name, **{"expires_at": NOW + 3600, **changes}))

    async def sits_down(self, name: str, path: str = "/desk/approvals") -> tuple[Browser, Page]:
        """Return the browser in which `name` is signed in, and a page of the desk there."""
        browser = await self.signed_in(name)
        return browser, await browser.get(self.url + path)

    @property
    def methods(self) -> list[tuple[str, str, str]]:
        """Of each record that a use case wrote: who, what, and how it ended."""
        return [
            (r.get("principal", ""), r["method"], r.get("code", ""))
            for r in self._written()
            if "." in r.get("method", "")
        ]

    def _written(self) -> list[dict[str, Any]]:
        with_reader = self.store.log.reader()
        try:
            return with_reader.after(-1, 10_000)
        finally:
            with_reader.close()


@asynccontextmanager
async def desk_house(folder: Path, **settings: Any) -> AsyncIterator[DeskHouse]:
    """Open a house with a desk and everybody in `people`, who are `PEOPLE` if it is not said."""
    approvals = MemoryApprovalStore(ApprovalRules(most_waiting=1000, most_per_hour=1000))
    folder.mkdir(exist_ok=True)
    seen = settings.pop("seen", ())
    people = settings.pop("people", PEOPLE)
    signing_in = {
        name: settings.pop(name) for name in ("federation", "providers", "desk") if name in settings
    }
    house = DeskHouse(folder, url=HTTP, **signing_in)
    around = opened(folder, approvals=approvals, seen=seen, people_in=house.stores)
    async with around as (admin, store):
        house.admin, house.store, house.approvals = admin, store, approvals
        house.open_desk(**settings)
        for name, groups in people.items():
            await house.person(name, groups=groups)
        yield house
