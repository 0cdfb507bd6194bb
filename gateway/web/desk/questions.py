"""The desk's pages of calls that wait for a person's word."""

from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.rows import Row
from gateway.domain.approvals import Span
from gateway.errors import BadCommand
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.paging import piece_of
from gateway.web.forms import BadForm

_PATH = "/approvals"
_FORM = "desk-answer"


class QuestionPages:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @property
    def routes(self) -> list[Route]:
        return [
            self._frame.route(_PATH, get=self._list),
            self._frame.route(f"{_PATH}/standing", get=self._standing),
            self._frame.route(f"{_PATH}/{{id}}", get=self._question, post=self._answer),
        ]

    async def _list(self, guest: Guest) -> Response:
        """Show what waits, first what runs out first; or everything, newest first."""
        every = guest.query.get("state") == "all"
        rows = await self._frame.ask(guest, "approvals.list", all=every)
        place = _asked if every else _runs_out
        piece = piece_of(rows, place, guest.query.get("after"), last_first=every)
        later = every or guest.query.get("after")
        return await self._frame.page(
            guest,
            "approvals.html",
            room="approvals",
            piece=piece,
            names=await self._frame.names(guest, piece.rows),
            every=every,
            waiting=None if later else sum(not row["void"] for row in rows),
        )

    async def _standing(self, guest: Guest) -> Response:
        """Show the answers that stand, those first that were given first."""
        rows = await self._frame.ask(guest, "approvals.standing")
        piece = piece_of(
            rows, lambda row: f"{row['given_at']}|{row['id']}", guest.query.get("after")
        )
        names = await self._frame.names(guest, piece.rows)
        return await self._frame.page(
            guest, "standing.html", room="approvals", piece=piece, names=names
        )

    async def _question(self, guest: Guest) -> Response:
        """Show one question; what it says only to whoever may answer, which is on record."""
        row = await self._frame.ask(guest, "approvals.show", approval=_id(guest))
        offered = row["arguments"] is not None and not self._frame.read_only
        return await self._frame.page(
            guest,
            "question.html",
            room="approvals",
            row=row,
            names=await self._frame.names(guest, [row]),
            offered=offered,
            csrf=guest.visit.token(_FORM, row["id"]),
        )

    async def _answer(self, guest: Guest) -> Response:
        id_, form = _id(guest), guest.form
        action, note = form.get("action", ""), form.get("note", "")
        said_no = action in {"deny", "deny_run"}
        self._frame.require_change(guest, _FORM, id_, ends=said_no)
        if said_no and not note.strip():
            raise BadCommand(
                "Say why not, in the note: whoever made the call reads it in the record."
            )
        match action:
            case "deny" | "deny_run":
                said = {"for_run": action == "deny_run"}
                await self._frame.ask(guest, "approvals.deny", approval=id_, note=note, **said)
            case Span.ONCE | Span.RUN | Span.STANDING:
                said = {"for_run": action == Span.RUN, "standing": action == Span.STANDING}
                await self._frame.ask(guest, "approvals.allow", approval=id_, note=note, **said)
            case _:
                raise BadForm("This form says neither yes nor no.")
        return self._frame.go(f"/desk{_PATH}/{id_}")


def _id(guest: Guest) -> str:
    return str(guest.visit.request.path_params["id"])


def _asked(row: Row) -> str:
    return f"{row['asked_at']}|{row['id']}"


def _runs_out(row: Row) -> str:
    return f"{row['expires_at']}|{row['id']}"
