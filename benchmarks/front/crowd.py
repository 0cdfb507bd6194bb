"""Many servers with many tools behind one gateway, and one of them that hangs."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.front.stage import Front, Stage, staged
from tests.running import Running

_HUNG = "server0"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large it is, and how often each thing is done."""

    servers: int = 20
    tools: int = 1_000
    lists: int = 30
    searches: int = 200
    rounds: int = 5
    """How often a server hangs, and answers again."""
    calls: int = 500
    """In all rounds, to each side of the comparison."""
    waiting: int = 16
    """Calls that wait for the one that hangs."""
    listings: int = 2
    """Lists of resources that one client asks for while it hangs, in each round."""


QUICK = Plan(servers=4, tools=40, lists=3, searches=5, rounds=1, calls=20, waiting=4)


def tools_of(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Return definitions of about 600 bytes each, the same number of every server's."""
    each = plan.tools // plan.servers
    return {
        f"server{number}": [_tool(number, place) for place in range(each)]
        for number in range(plan.servers)
    }


def _tool(number: int, place: int) -> dict[str, Any]:
    topic = f"{_WORDS[place % len(_WORDS)]} {_WORDS[(place * 7 + number) % len(_WORDS)]}"
    documented = {
        name: {"type": "string", "description": f"The {name} of the {topic}, as it is written."}
        for name in ("name", "owner", "since", "note")
    }
    return {
        "name": f"{topic.replace(' ', '_')}_{place}",
        "description": f"Looks up one {topic} by name. Returns what is known of it, or nothing.",
        "inputSchema": {"type": "object", "properties": documented, "required": ["name"]},
        "annotations": {"readOnlyHint": True},
    }


_WORDS = (
    *("invoice", "ticket", "branch", "meeting", "contact", "shipment", "contract", "photo"),
    *("backup", "sensor", "holiday", "lecture", "recipe", "permit", "journey", "password"),
)


def measure(plan: Plan, folder: Path) -> dict[str, float]:
    """Run it; return figures, times in milliseconds and memory in MiB."""
    tools = tools_of(plan)
    figures: dict[str, float] = {"servers": plan.servers, "tools": plan.tools}
    with staged(folder, tools, discovery={"defer": "off"}) as stage:
        figures["idle_mib"] = memory_of(stage.gateway)
        for era, legacy in (("modern", False), ("legacy", True)):
            with stage.front(legacy=legacy) as front:
                own = len(front.tools()) - plan.tools
                if own < 0:
                    raise RuntimeError(f"{-own} tools are not listed")
                figures |= _times(f"list.{era}", plan.lists, front.tools)
        with stage.front() as front:
            queries = iter(_queries(plan.searches + 1))
            front.use("search_tools", query=next(queries))
            figures |= _times(
                "search", plan.searches, lambda: front.use("search_tools", query=next(queries))
            )
        figures["loaded_mib"] = memory_of(stage.gateway)
        figures |= _beside_a_hung_one(plan, stage, tools)
        figures["after_mib"] = memory_of(stage.gateway)
    return figures


def _queries(count: int) -> Iterator[str]:
    for number in range(count):
        first, second = _WORDS[number % len(_WORDS)], _WORDS[number * 5 % len(_WORDS)]
        yield f"who owns the {first} and the {second} number {number}"


@dataclass(frozen=True, kw_only=True)
class Round:
    """Milliseconds of each call to the others: as long as all is well, and while one server hangs."""

    plain: list[float]
    """Half of them before, half after, so that what a machine does over minutes counts on both sides."""
    listing: float
    beside: list[float]
    while_listing: list[float]
    """While somebody else lists resources, too."""
    there: int
    """Resources in the shortest list meanwhile."""
    waits: list[float]
    """For each of these lists."""

    def ratio(self, calls: list[float]) -> float:
        """Return how much longer the usual one of `calls` took."""
        return median(calls) / median(self.plain)


def _beside_a_hung_one(
    plan: Plan, stage: Stage, tools: Mapping[str, list[dict[str, Any]]]
) -> dict[str, float]:
    """Compare calls to all the others while one hangs with those before and after, in turns."""
    others = [f"{name}__{listed[0]['name']}" for name, listed in tools.items() if name != _HUNG]
    stuck = f"{_HUNG}__{tools[_HUNG][0]['name']}"
    with ExitStack() as stack:
        front = stack.enter_context(stage.front())
        patient = [stack.enter_context(stage.front(name="patient")) for _ in range(plan.waiting)]
        for name in (*others, stuck):
            front.use(name, name="x")
        resources = len(front.resources())
        rounds = [
            _round(plan, stage, front, others, partial(_hanging, stage, stuck, patient))
            for _ in range(plan.rounds)
        ]
    plain = [ms for one in rounds for ms in one.plain]
    beside = [ms for one in rounds for ms in one.beside]
    return {
        "call.p50_ms": _p50(plain),
        "call.p95_ms": _p95(plain),
        "resources.list_ms": _p50([one.listing for one in rounds]),
        "hung.call.p50_ms": _p50(beside),
        "hung.call.p95_ms": _p95(beside),
        "hung.call.ratio": _p50([one.ratio(one.beside) for one in rounds]),
        "hung.call.while_listing_ratio": _p50([one.ratio(one.while_listing) for one in rounds]),
        "hung.resources.of_others_percent": round(
            100 * min(one.there for one in rounds) / (resources - 1), 1
        ),
        "hung.resources.first_ms": _p50([one.waits[0] for one in rounds]),
        "hung.resources.last_ms": _p50([one.waits[-1] for one in rounds]),
    }


def _round(
    plan: Plan,
    stage: Stage,
    front: Front,
    others: list[str],
    hanging: Callable[[], AbstractContextManager[None]],
) -> Round:
    each = plan.calls // plan.rounds
    plain = _calls(front, others, each // 2)
    listing = _ms(front.resources)
    with hanging():
        beside = _calls(front, others, each)
        there, waits, while_listing = _resources_beside(plan, stage, front, others)
    plain += _calls(front, others, each // 2)
    return Round(
        plain=plain,
        listing=listing,
        beside=beside,
        while_listing=while_listing,
        there=there,
        waits=waits,
    )


def _resources_beside(
    plan: Plan, stage: Stage, front: Front, others: list[str]
) -> tuple[int, list[float], list[float]]:
    """List resources while one server hangs, and call the others meanwhile.

    Return how many there were in the shortest list, how long each list took, and each call.
    """
    there: list[int] = []
    waits: list[float] = []

    def listing() -> None:
        for _ in range(plan.listings):
            waits.append(_ms(lambda: there.append(len(lister.resources()))))  # noqa: PERF401 - as they come

    # With a token of its own in each round: who has waited in vain does not wait again.
    with stage.front(name="lister") as lister:
        thread = threading.Thread(target=listing)
        thread.start()
        calls = _calls(front, others, plan.calls // plan.rounds)
        thread.join()
    return min(there), waits, calls


@contextmanager
def _hanging(stage: Stage, tool: str, patient: list[Front]) -> Iterator[None]:
    """Have a server hang with calls that wait for it, and answer again at the end."""
    stage.tell(_HUNG, "hang")
    threads = [threading.Thread(target=_wait, args=(front, tool)) for front in patient]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    try:
        yield
    finally:
        stage.tell(_HUNG, "answer")
        for thread in threads:
            thread.join()


def _wait(front: Front, tool: str) -> None:
    try:
        front.use(tool, name="x")
    except RuntimeError:
        # That nobody waits for ever is the point: it may have been given up on.
        return


def _calls(front: Front, names: list[str], count: int) -> list[float]:
    return [
        _ms(partial(front.use, names[number % len(names)], name="x")) for number in range(count)
    ]


def _times(name: str, count: int, work: Callable[[], object]) -> dict[str, float]:
    times = [_ms(work) for _ in range(count)]
    return {f"{name}.p50_ms": _p50(times), f"{name}.p95_ms": _p95(times)}


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def _p50(times: list[float]) -> float:
    return round(median(times), 2)


def _p95(times: list[float]) -> float:
    return round(sorted(times)[int(0.95 * len(times))], 2)


def memory_of(gateway: Running) -> float:
    """Return what the gateway's process holds in memory, in MiB; nan where nobody can tell."""
    status = Path(f"/proc/{gateway.process.pid}/status")
    if not status.exists():
        return float("nan")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return round(int(lines["VmRSS"].split()[0]) / 1024, 1)
