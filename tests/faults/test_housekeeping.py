"""What the process is done with goes back to the system, however few objects it is."""

from dataclasses import dataclass, field

from gateway.wiring.housekeeping import GROWTH, Housekeeping


@dataclass
class Process:
    """One whose memory is what a test says."""

    octets: int = GROWTH
    garbage: int = 0
    """Of old objects."""
    pause_s: float = 0.0
    """How long looking through all of them takes."""
    now: float = 0.0
    did: list[str] = field(default_factory=list)

    def collect(self, generation: int) -> None:
        self.did.append("young" if generation == 1 else "all")
        if generation == 2:
            self.octets -= self.garbage
            self.garbage = 0
            self.now += self.pause_s

    def trim(self) -> None:
        self.did.append("trim")

    def kept(self) -> Housekeeping:
        return Housekeeping(lambda: self.octets, self.collect, self.trim, lambda: self.now)


async def test_a_process_that_has_grown_is_looked_through() -> None:
    process = Process()
    kept = process.kept()
    process.octets += GROWTH
    assert await kept.look(1.0)
    assert process.did == ["young", "trim", "all", "trim"]


async def test_all_objects_are_looked_through_only_where_the_young_were_not_enough():
    process = Process()
    process.trim = lambda: setattr(process, "octets", 0)  # type: ignore[method-assign]
    kept = process.kept()
    process.octets += GROWTH
    assert await kept.look(1.0)
    assert process.did == ["young"]


async def test_what_holds_everybody_up_for_long_is_done_rarely():
    process = Process(pause_s=0.03)
    kept = process.kept()
    for now in (1.0, 30.0, 31.1):
        process.octets += GROWTH
        await kept.look(now)
    assert [what for what in process.did if what != "trim"] == [
        "young",
        "all",
        "young",
        "young",
        "all",
    ]


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
