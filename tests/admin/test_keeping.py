"""Who may put old records away, and that it is on record before it happens."""

import pytest

from gateway.admin.journal import Journal
from gateway.admin.keeping import KeepingDesk
from gateway.admin.person import Person, Role
from gateway.errors import BadCommand, Forbidden
from gateway.storage.retention import Held, NotRemovable, Removed, Segment

NOW = 1_763_744_000.0
DAY_US = 86_400_000_000


class Log:
    def __init__(self):
        self.records = []

    async def append(self, record):
        self.records.append((record.fields["method"], record.fields["code"]))


class Kept:
    """A retention that notes what it is asked for."""

    def __init__(self, log):
        self.log = log
        self.asked = []
        self.refuses = ""
        self.held = []

    async def _ask(self, *asked):
        assert self.log.records  # before it happens
        self.asked.append(asked)
        if self.refuses:
            raise NotRemovable(self.refuses)

    async def archive(self, before_us):
        await self._ask("archive", before_us)
        return [Segment(first=0, stop=256, path="/a/b", sha256="00")]

    async def prune(self, before_us):
        await self._ask("prune", before_us)
        return Removed(first=0, stop=256, root=b"\xab")

    async def hold(self, name, since_us):
        await self._ask("hold", name, since_us)
        self.held.append(Held(name=name, first=7))
        return 7

    async def release(self, name):
        await self._ask("release", name)
        self.held = [one for one in self.held if one.name != name]

    async def holds(self):
        return self.held


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def kept(log):
    return Kept(log)


@pytest.fixture
def desk(log, kept):
    journal = Journal(log, clock=lambda: NOW, new_id=lambda: "i")
    return KeepingDesk(kept, journal, clock=lambda: NOW)


def person(*roles):
    return Person(name="emma", roles=frozenset(roles))


ADMIN = person(Role.ADMIN)


async def test_an_admin_archives_removes_and_holds(desk, kept, log):
    assert await desk.archive(ADMIN, before="1d") == [
        {"first": 0, "last": 255, "file": "/a/b", "sha256": "00"}
    ]
    assert await desk.prune(ADMIN, before="1d") == {"from": 0, "to": 256, "root": "ab"}
    assert await desk.hold(ADMIN, since="1d") == {"name": "hold-1", "held_from": 7}
    assert await desk.release(ADMIN) == {"name": "hold-1", "held_from": None}
    day_ago = int(NOW * 1e6) - DAY_US
    assert kept.asked == [
        ("archive", day_ago),
        ("prune", day_ago),
        ("hold", "hold-1", day_ago),
        ("release", "hold-1"),
    ]
    assert log.records == [
        ("audit.archive", "archive"),
        ("audit.prune", "prune"),
        ("audit.hold", "hold"),
        ("audit.release", "release"),
    ]


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.APPROVER, Role.USER])
async def test_nobody_else_does(desk, kept, role):
    for asked in (desk.archive, desk.prune):
        with pytest.raises(Forbidden):
            await asked(person(role), before="1d")
    with pytest.raises(Forbidden):
        await desk.hold(person(role), since="1d")
    with pytest.raises(Forbidden):
        await desk.release(person(role), name="hold-1")
    assert kept.asked == []


async def test_holds_stand_beside_each_other_and_end_by_name(desk, kept, log):
    await desk.hold(ADMIN, since="1d", name="trial")
    assert (await desk.hold(ADMIN, since="1d"))["name"] == "hold-1"
    assert (await desk.hold(ADMIN, since="2d"))["name"] == "hold-2"
    with pytest.raises(BadCommand, match="say which hold: trial, hold-1, hold-2"):
        await desk.release(ADMIN)
    with pytest.raises(BadCommand, match="no hold of that name"):
        await desk.release(ADMIN, name="other")
    for name in ("", "a b", "x" * 65, "a\n"):
        with pytest.raises(BadCommand, match="a hold's name"):
            await desk.hold(ADMIN, since="1d", name=name)
    await desk.release(ADMIN, name="hold-1")
    told = [{"name": "trial", "held_from": 7}, {"name": "hold-2", "held_from": 7}]
    assert await desk.holds(person(Role.AUDITOR)) == told
    with pytest.raises(Forbidden):
        await desk.holds(person(Role.USER))


async def test_why_nothing_was_removed_is_told_and_recorded(desk, kept, log):
    kept.refuses = "records 0 to 255 are in no archive yet"
    with pytest.raises(BadCommand, match="are in no archive yet"):
        await desk.prune(ADMIN, before="1d")
    assert log.records[0] == ("audit.prune", "prune")
    assert len(log.records) == 2


@pytest.mark.parametrize("text", ["", "yesterday", "400"])
async def test_what_is_no_time_is_refused(desk, kept, text):
    with pytest.raises(BadCommand):
        await desk.prune(ADMIN, before=text)
    assert kept.asked == []
