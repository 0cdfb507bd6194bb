"""The desk's pages of runs: what one has read, what it did, and why its label is what it is."""

from starlette.responses import Response
from starlette.routing import Route

from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.paging import SIZE


class RunPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        route = self._frame.route
        return [
            route("/runs", get=self._list),
            route("/runs/{run}", get=self._one),
            route("/runs/{run}/picture", get=self._picture),
        ]

    async def _list(self, guest: Guest) -> Response:
        """Show the newest runs, or the newest of those that calls can still be in."""
        live = guest.query.get("live") == "yes"
        rows = await self._frame.ask(guest, "runs.list", live=live, limit=SIZE)
        return await self._frame.page(
            guest, "runs.html", room="runs", rows=rows, live=live, most=SIZE
        )

    async def _one(self, guest: Guest) -> Response:
        """Tell a run's story; that it was told is on record."""
        row = await self._frame.ask(guest, "runs.show", run=_run(guest))
        names = await self._frame.names(guest, [{"principal": one} for one in row["principals"]])
        return await self._frame.page(guest, "run.html", room="runs", row=row, names=names)

    async def _picture(self, guest: Guest) -> Response:
        """Show the story as a picture, which is drawn here of shapes and escaped texts alone."""
        row = await self._frame.ask(guest, "runs.picture", run=_run(guest))
        return await self._frame.page(guest, "picture.html", room="runs", row=row)


def _run(guest: Guest) -> str:
    return str(guest.visit.request.path_params["run"])
