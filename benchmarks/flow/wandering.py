"""Agents that wander: more is read than the task needs, and much of it twice.

A recorded task is the shortest path. A real agent reads on its way what turns out to be of no use, and
what it has read already. Whatever a run has read may tell against a later call of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.flow.traces import Step, Suite, Trace
from gateway.domain.labels import Effect

SHARE = 8
"""One in so many attacks is played: each is as long as its detour."""


def wandering(suite: Suite, calls: int) -> list[list[Trace]]:
    """Return the tasks of `suite`, and a share of its attacks, with `calls` reads before each.

    They are what other tasks of the suite read, in turns, and count for nothing by themselves. What the
    task itself reads is read twice.
    """
    reads = [
        (trace.user_task, _irrelevant(step))
        for trace in suite.traces
        if not trace.is_attack
        for step in trace.steps
        if _is_read(suite, step)
    ]
    return [
        [_longer(suite, trace, reads, calls)]
        for trace in suite.traces
        if not trace.is_attack or _number(trace.id) % SHARE == 0
    ]


def _longer(suite: Suite, trace: Trace, reads: Sequence[tuple[str, Step]], calls: int) -> Trace:
    others = [step for task, step in reads if task != trace.user_task]
    first = _number(trace.id)
    before = [others[(first + number) % len(others)] for number in range(calls if others else 0)]
    twice = [
        again
        for step in trace.steps
        for again in ((step, _irrelevant(step)) if _is_read(suite, step) else (step,))
    ]
    return replace(trace, steps=(*before, *twice))


def _irrelevant(step: Step) -> Step:
    return replace(step, of_user=False, harmful=False)


def _is_read(suite: Suite, step: Step) -> bool:
    rule = suite.config.servers[step.server].rule.tool(step.tool)
    return rule.effect is Effect.READ and not step.harmful


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
