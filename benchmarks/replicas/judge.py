"""What must not be after any fault, of what is remembered and what is on record: pure, and it can say no."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.replicas.history import NOTHING, RESULT, Call, History, Log, Recorded

UNRECORDED = frozenset({NOTHING, "audit_unavailable", "unauthenticated"})
"""Answers that promise no record of the call, or one of another kind."""
_BOTH = {"intent", "outcome"}
_ASKED = "approval_required"

Trail = Sequence[Recorded]


def problems(history: History, log: Log, *, asking: str = "") -> list[str]:
    """Say what was promised and not kept; `asking` is the tool that needs a yes for each call."""
    trails = _trails(log)
    found: dict[str, Iterable[str]] = {
        "acknowledged, but not in the log": lost(history, trails),
        "there twice": doubled(history, log, trails),
        "sent, but not recorded": unrecorded(history, trails),
        "out of the tree": outside(log),
        "an effect before its cause": overtaken(trails),
        "decided on what had ended": overdue(history),
        "a yes": misused(history, log, asking),
        "the log does not verify": log.altered,
    }
    return [f"{what}: {one}" for what, ones in found.items() for one in ones]


def unshown(history: History, *, whats: Iterable[str], yes: bool) -> list[str]:
    """Say what the run shows nothing about, as it never came to it."""
    found = []
    if not any(call.answer == RESULT for call in history.calls):
        found.append("no call was carried, so nothing could be lost")
    for what in whats:
        spans = [one for one in history.ended if one.what == what]
        if not any(one.forbids(call) for one in spans for call in history.calls):
            found.append(f"no call was tried while its {what} had ended")
    if yes and not any(one.over for one in history.yeses):
        found.append("no yes was used")
    return found


def lost(history: History, trails: dict[str, Trail]) -> Iterator[str]:
    """Name the calls whose answer promises a record that is not there."""
    for call in history.calls:
        trail = trails.get(call.trace, ())
        if call.answer == RESULT:
            missing = sorted(_BOTH - {one.kind for one in trail})
            if missing:
                yield f"{call.trace}, its {' and '.join(missing)}"
            elif withdrawn := [one.code for one in trail if one.kind == "outcome" and one.code]:
                yield f"{call.trace}, of which the log says {withdrawn}"
        elif call.answer not in UNRECORDED and call.answer not in {one.code for one in trail}:
            yield f"{call.trace}, its refusal {call.answer}"


def doubled(history: History, log: Log, trails: dict[str, Trail]) -> Iterator[str]:
    """Name the records that are there twice, and the calls that were decided or sent twice."""
    for name, times in Counter(one.id for one in log.records).items():
        if times > 1:
            yield f"record {name}"
    for trace, trail in trails.items():
        # What was recorded as given out and then was not is said by another record, with its code.
        told = Counter((one.kind, one.code) for one in trail)
        if any(times > 1 for (kind, _), times in told.items() if kind in _BOTH):
            yield f"{trace}, {', '.join(f'{one.kind} {one.code}'.strip() for one in trail)}"
        elif len({one.decision for one in trail}) > 1:
            yield f"{trace}, decided twice"
    for trace, times_s in history.sent.items():
        if len(times_s) > 1:
            yield f"{trace}, sent {len(times_s)} times"


def unrecorded(history: History, trails: dict[str, Trail]) -> Iterator[str]:
    """Name the calls that the server saw without an intent."""
    for trace in history.sent:
        if not any(one.kind == "intent" for one in trails.get(trace, ())):
            yield trace


def outside(log: Log) -> Iterator[str]:
    """Say which records no checkpoint vouches for."""
    places = [one.leaf_index for one in log.records]
    if places != list(range(log.size)):
        yield f"{len(places)} records for the {log.size} leaves of the tree"
    if log.signed != log.size:
        yield f"{log.size - log.signed} records are not signed"
    if log.left:
        yield f"{log.left} records are durable and have no place"


def overtaken(trails: dict[str, Trail]) -> Iterator[str]:
    """Name the calls whose outcome stands before their intent."""
    for trace, trail in trails.items():
        kinds = [one.kind for one in sorted(trail, key=lambda one: one.leaf_index)]
        if "intent" in kinds and "outcome" in kinds[: kinds.index("intent")]:
            yield trace


def overdue(history: History) -> Iterator[str]:
    """Name the calls that were carried although something had ended before they began."""
    for span in history.ended:
        for call in filter(span.forbids, history.calls):
            done_s = [*history.sent.get(call.trace, ())]
            if call.answer == RESULT:
                done_s.append(call.ended_s)
            if any(at_s < span.until_s for at_s in done_s):
                later = call.begun_s - span.since_s
                yield f"{span.what}: {call.trace} of {call.tool} at {call.at}, {later:.3f} s later"


def misused(history: History, log: Log, asking: str) -> Iterator[str]:
    """Name every yes that was used twice or by nobody, and every call without one that needs it."""
    intents = [one for one in log.records if one.kind == "intent"]
    uses = Counter(one.approval for one in intents if one.approval)
    said = {one.id for one in history.yeses}
    for name, times in uses.items():
        if times > 1:
            yield f"{name} was used {times} times"
        if name not in said:
            yield f"{name} was used, and nobody has said it"
    for one in history.yeses:
        if one.over and not uses[one.id]:
            yield f"{one.id} is gone, and no call went out by it"
    asked = {call.trace for call in history.calls if asking and call.tool == asking}
    for intent in intents:
        if intent.trace in asked and not intent.approval:
            yield f"{intent.trace} went out without one"


def refusals(calls: Iterable[Call]) -> Counter[str]:
    """Count what was not carried, by what was said."""
    return Counter(call.answer or "no answer" for call in calls if call.answer != RESULT)


def _trails(log: Log) -> dict[str, Trail]:
    trails: defaultdict[str, list[Recorded]] = defaultdict(list)
    for one in log.records:
        if one.trace:
            trails[one.trace].append(one)
    return dict(trails)
