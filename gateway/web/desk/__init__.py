"""The desk: a security team's pages. They ask the use cases that every door asks, and hold no rule."""

from starlette.routing import Route

from gateway.web.desk.acts import ActPages
from gateway.web.desk.asking import AskPages
from gateway.web.desk.entry import EntryPages
from gateway.web.desk.frame import Frame
from gateway.web.desk.live import LivePages
from gateway.web.desk.now import NowPages
from gateway.web.desk.others import OtherPages
from gateway.web.desk.pins import PinPages
from gateway.web.desk.questions import QuestionPages
from gateway.web.desk.record import RecordPages
from gateway.web.desk.runs import RunPages

_ROOMS = (
    LivePages,
    NowPages,
    QuestionPages,
    PinPages,
    RunPages,
    RecordPages,
    AskPages,
    EntryPages,
    OtherPages,
    ActPages,
)


def desk_routes(frame: Frame) -> list[Route]:
    """Return the routes of every room."""
    return [route for room in _ROOMS for route in room(frame).routes]
