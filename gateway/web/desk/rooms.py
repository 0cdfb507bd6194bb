"""The rooms of the desk, and who finds something in them: for its menu. The use cases decide."""

from collections.abc import Set as AbstractSet

from gateway.admin.person import Role
from gateway.domain._value import value

READERS = frozenset({Role.APPROVER, Role.AUDITOR, Role.ADMIN})
"""Whoever has one of these has a desk."""
OF_THE_LOG = frozenset({Role.AUDITOR, Role.ADMIN})
"""Whoever reads what was recorded, and of whom."""


@value
class Room:
    name: str
    title: str
    path: str
    for_: AbstractSet[Role] = READERS
    counts: str = ""
    """Which of the numbers that move by themselves stands beside it."""


ROOMS = (
    Room(name="now", title="Now", path="/desk"),
    Room(name="approvals", title="Approvals", path="/desk/approvals", counts="questions"),
    Room(name="pins", title="Pins", path="/desk/pins", counts="definitions"),
    Room(name="runs", title="Runs", path="/desk/runs"),
    Room(name="record", title="Record", path="/desk/record", for_=OF_THE_LOG),
    Room(name="policy", title="Policy", path="/desk/policy"),
    Room(name="people", title="People", path="/desk/people", for_=OF_THE_LOG),
    Room(name="servers", title="Servers", path="/desk/servers", counts="failing"),
    Room(name="alerts", title="Alerts", path="/desk/alerts", for_=OF_THE_LOG),
)


def rooms_of(roles: AbstractSet[Role]) -> tuple[Room, ...]:
    """Return the rooms in which people of these roles find something."""
    return tuple(room for room in ROOMS if not roles.isdisjoint(room.for_))
