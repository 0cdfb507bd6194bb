"""The desk: a security team's pages. They ask the use cases that every door asks, and hold no rule."""

from starlette.responses import Response
from starlette.routing import Route

from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.pins import PinPages
from gateway.web.desk.questions import QuestionPages
from gateway.web.desk.record import RecordPages
from gateway.web.desk.rooms import ROOMS


def desk_routes(frame: Frame) -> list[Route]:
    """Return the routes of every room."""

    async def first(_: Guest) -> Response:
        return frame.go(ROOMS[0].path)

    rooms = (QuestionPages(frame), PinPages(frame), RecordPages(frame))
    return [frame.route("", get=first), *(route for room in rooms for route in room.routes)]
