"""Incidents, each played on what was learned in the ordinary weeks before."""

from collections.abc import Callable, Iterator, Sequence

from benchmarks.alerts.world import DAY_S, HOUR_S, START, Actor, World
from gateway.behaviour.deviations import Kind
from gateway.behaviour.observation import Observation

Play = Callable[[World, Sequence[Actor]], Iterator[Observation]]

_UNKNOWN = ("s0", "")
_MORNING_H = 10
_NIGHT_H = 2


def _at(world: World, actor: Actor, hour: int) -> float:
    """Return the beginning of that hour, where the actor is, of the second day after the last."""
    return START + (world.days + 1) * DAY_S + (hour - actor.zone) * HOUR_S


def _burst(
    world: World,
    actor: Actor,
    hour: int,
    what: Sequence[tuple[tuple[str, str], str]],
    *,
    refused: bool = False,
) -> Iterator[Observation]:
    begun, step = _at(world, actor, hour), HOUR_S * 0.9 / len(what)
    for number, (tool, place) in enumerate(what):
        yield world.call(begun + number * step, actor, tool, place, refused=refused)


def reading_everything(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Read with one tool in working hours whatever there is."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(actor.tools[0], "")] * 800)


def at_night(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Use a stolen credential at night, with the tools of every day, not faster than by day."""
    for actor in victims:
        what = [(actor.tools[number % 3], "") for number in range(40)]
        yield from _burst(world, actor, _NIGHT_H, what)


def tool_scan(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Call one after the other whatever is offered."""
    for actor in victims:
        others = [tool for tool in world.tools if tool not in actor.tools]
        yield from _burst(world, actor, _MORNING_H, [(tool, "") for tool in others[:25]])


def refusal_probing(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Try arguments until policy lets one through."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(actor.tools[0], "")] * 50, refused=True)


def guessing_names(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Guess at names of tools that there are not."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(_UNKNOWN, "")] * 50, refused=True)


def many_new_destinations(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Send to fifteen places that were never sent to."""
    for actor in victims:
        what = [(actor.tools[0], world.fresh_place()) for _ in range(15)]
        yield from _burst(world, actor, _MORNING_H, what)


def one_new_destination(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Have a service, which sends a lot to the same few, send once to another place."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(actor.tools[0], world.fresh_place())])


def mailing(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Send with a tool that is used now and then, to somebody who is known, again and again."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(actor.tools[-1], actor.places[0])] * 250)


def taken_over_client(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Have all users of one client call a little more than they do, in the same hour."""
    users = [actor for actor in world.actors if actor.client == victims[0].client]
    begun = START + (world.days + 1) * DAY_S + 13 * HOUR_S
    for number in range(58):
        for place, actor in enumerate(users):
            time = begun + (number + place / len(users)) * 60
            yield world.call(time, actor, actor.tools[number % 3])


def dormant_account(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Come back months later and look around."""
    for actor in victims:
        others = [tool for tool in world.tools if tool not in actor.tools]
        for number, tool in enumerate(others[:12]):
            yield world.call(_at(world, actor, _MORNING_H) + number * 60, actor, tool)


def runaway_loop(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Have a service call the same again and again without a pause."""
    for actor in victims:
        yield from _burst(world, actor, _MORNING_H, [(actor.tools[0], "")] * 3000)


def borrowed_service(world: World, victims: Sequence[Actor]) -> Iterator[Observation]:
    """Use a service's credential by hand, for what the service never does."""
    for actor in victims:
        others = [tool for tool in world.tools if tool not in actor.tools]
        yield from _burst(world, actor, _MORNING_H, [(tool, "") for tool in others[:7]])


INCIDENTS: Sequence[tuple[Play, str, Kind]] = (
    (reading_everything, "person", Kind.RATE),
    (at_night, "person", Kind.HOUR),
    (tool_scan, "person", Kind.TOOL),
    (refusal_probing, "person", Kind.REFUSALS),
    (guessing_names, "person", Kind.REFUSALS),
    (many_new_destinations, "person", Kind.DESTINATION),
    (one_new_destination, "settled", Kind.DESTINATION),
    (mailing, "person", Kind.RATE),
    (taken_over_client, "client", Kind.RATE),
    (dormant_account, "person", Kind.TOOL),
    (runaway_loop, "service", Kind.RATE),
    (borrowed_service, "service", Kind.TOOL),
)
"""What is played, by whom, and which kind of deviation is to be told of it."""
