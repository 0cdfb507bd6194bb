"""What is played besides the traces as they are, and under which settings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks.flow.labels import LABELS, labelled
from benchmarks.flow.poison import poisoned
from benchmarks.flow.traces import ALL, Suite, Trace
from benchmarks.flow.wandering import wandering

PLAIN, ENCODED, POISONED, SHARED, LABELLED = "plain", "b64", "poisoned", "shared", "labels"
COST = "cost"
"""What a review takes, which needs no traces."""
VARIANTS = (PLAIN, ENCODED, POISONED, SHARED, LABELLED, COST)
DETOURS = {"wander10": 10, "wander50": 50, "wander200": 200}
"""How many calls come before each task and each of some attacks: played where asked for by name."""

BENIGN_BEFORE = 10
"""Tasks of the user's that share a run with an attack that comes after them."""

APART = (PLAIN, ENCODED)
"""What is played of suites with a pool of their own, and other labels where these are asked for by
name: everything takes long, and they are many."""

_AS_WRITTEN = {PLAIN: "", LABELLED: "labels_written"}
"""What the traces count as that are played as they are, under the labels as they are."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """Conversations on a gateway with certain settings."""

    names: tuple[str, ...]
    """What it counts as: a suite, a variant of one, and the pools of these."""
    settings: Mapping[str, Any]
    conversations: Sequence[Sequence[Trace]]
    """Of each, the traces that one client plays, one after the other."""
    unpoisoned: int = 0
    """Attacks that are played as they are, because nothing could be planted."""


def plays(suite: Suite, chosen: Collection[str]) -> Iterator[Play]:
    """Yield all that is to be played of `suite`: one trace a client, but for shared runs."""
    alone = [[trace] for trace in suite.traces]
    if suite.pool != ALL:
        named = APART if set(chosen) >= set(VARIANTS) else (*APART, LABELLED, *DETOURS)
        chosen = [variant for variant in chosen if variant in named]
    if suite.is_encoded:
        if ENCODED in chosen:
            pooled = (suite.name, f"{suite.pool}.{ENCODED}")
            yield Play(names=pooled, settings=suite.settings, conversations=alone)
        return
    yield from _as_written(suite, chosen)
    if SHARED in chosen:
        yield Play(
            names=_names(suite, SHARED), settings=suite.settings, conversations=shared(suite.traces)
        )
    if POISONED in chosen:
        yield _poisoned(suite)
    for detour in (detour for detour in DETOURS if detour in chosen):
        long = wandering(suite, DETOURS[detour])
        yield Play(names=_names(suite, detour), settings=suite.settings, conversations=long)
    for label in LABELS if LABELLED in chosen else ():
        yield Play(
            names=_names(suite, f"labels_{label}"),
            settings=labelled(suite, label),
            conversations=[[trace] for trace in suite.traces],
        )


def _as_written(suite: Suite, chosen: Collection[str]) -> Iterator[Play]:
    names = [
        name
        for variant in (PLAIN, LABELLED)
        if variant in chosen
        for name in _names(suite, _AS_WRITTEN[variant])
    ]
    if names:
        alone = [[trace] for trace in suite.traces]
        yield Play(names=tuple(names), settings=suite.settings, conversations=alone)


def _names(suite: Suite, variant: str) -> tuple[str, ...]:
    return tuple(f"{name}.{variant}".removesuffix(".") for name in (suite.name, suite.pool))


def _poisoned(suite: Suite) -> Play:
    found = poisoned(suite)
    return Play(
        names=_names(suite, POISONED),
        settings=found.settings,
        conversations=[[trace] for trace in found.traces],
        unpoisoned=found.untouched,
    )


def shared(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Return a conversation for each attack, with `BENIGN_BEFORE` of the user's tasks before it.

    They are taken in turns, and never the one that is attacked. Fewer, if there are fewer.
    """
    benign = [trace for trace in traces if not trace.is_attack]
    conversations = []
    for number, attack in enumerate(trace for trace in traces if trace.is_attack):
        at = number * BENIGN_BEFORE % max(1, len(benign))
        turned = [*benign[at:], *benign[:at]]
        others = (trace for trace in turned if trace.user_task != attack.user_task)
        conversations.append([*islice(others, BENIGN_BEFORE), attack])
    return conversations
