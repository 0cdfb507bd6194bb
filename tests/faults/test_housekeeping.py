"""What the process is done with goes back to the system, however few objects it is."""

from dataclasses import dataclass, field

from gateway.wiring.housekeeping import GROWTH, Housekeeping


@dataclass
class Process:
    """One whose memory is what a test says."""

    octets: int = GROWTH
    garbage: int = 0
    did: list[str] = field(default_factory=list)

    def collect(self) -> None:
        self.did.append("collect")
        self.octets -= self.garbage
        self.garbage = 0

    def trim(self) -> None:
        self.did.append("trim")

    def kept(self) -> Housekeeping:
        return Housekeeping(lambda: self.octets, self.collect, self.trim)


async def test_a_process_that_has_grown_is_looked_through() -> None:
    process = Process()
    kept = process.kept()
    process.octets += GROWTH
    assert await kept.look(1.0)
    assert process.did == ["collect", "trim"]


async def test_a_process_that_has_hardly_grown_is_left_alone() -> None:
    process = Process()
    kept = process.kept()
    process.octets += GROWTH - 1
    assert not await kept.look(1.0)
    assert process.did == []


async def test_growth_is_counted_from_where_the_last_look_left_it() -> None:
    process = Process()
    kept = process.kept()
    process.octets, process.garbage = 3 * GROWTH, GROWTH
    assert await kept.look(1.0)
    assert not await kept.look(1000.0)
    process.octets += GROWTH
    assert await kept.look(2000.0)


async def test_what_sank_by_itself_is_where_growth_is_counted_from() -> None:
    process = Process(octets=4 * GROWTH)
    kept = process.kept()
    process.octets = GROWTH
    assert not await kept.look(1.0)
    process.octets = 2 * GROWTH
    assert await kept.look(2.0)
