"""What a person's standing answers change in the figures, and what each change of the tables is."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks.flow.curve import CHANGES, changed, side_by_side
from benchmarks.flow.offline import engine_of, played
from benchmarks.flow.report import OWN
from benchmarks.flow.traces import Suite, read_suite, trace_files
from benchmarks.flow.variants import Play
from benchmarks.report import ROOT
from gateway.policy.wasm import WasmEngine

NAME = "workspace"
ATTACKS = 20


@pytest.fixture(scope="module")
def engine() -> WasmEngine:
    return engine_of(ROOT / "policies")


@pytest.fixture(scope="module")
def suite() -> Suite:
    found = read_suite(NAME, trace_files(OWN)[NAME])
    tasks = [trace for trace in found.traces if not trace.is_attack]
    attacks = [trace for trace in found.traces if trace.is_attack]
    return replace(found, traces=[*tasks, *attacks[:: len(attacks) // ATTACKS]])


def refused(suite: Suite, engine: WasmEngine, *, answered: bool) -> set[tuple[str, int, bool]]:
    """Return which steps of which traces were refused, and whether they are harmful."""
    play = Play(
        names=(NAME,),
        settings=suite.settings,
        conversations=[[trace] for trace in suite.traces],
    )
    found = played(play, suite, engine, declared=False, answered=answered)
    return {
        (trace.id, number, outcome.step.harmful)
        for trace, (outcomes,) in zip(suite.traces, found, strict=True)
        for number, outcome in enumerate(outcomes)
        if outcome.code is not None
    }


def test_what_a_person_answered_for_good_is_not_asked_again_and_no_attack_gains(
    suite: Suite, engine: WasmEngine
) -> None:
    before, after = (refused(suite, engine, answered=answered) for answered in (False, True))
    assert after < before
    assert {one for one in before - after if one[2]} == set()


def test_what_is_played_side_by_side_becomes_what_it_is_alone(
    suite: Suite, engine: WasmEngine, tmp_path: Path
) -> None:
    stricter = engine_of(changed(CHANGES["tighter: a weak proof is never enough"], tmp_path))
    for trace in suite.traces[::6]:
        became = side_by_side(suite, trace, {"a": engine, "b": stricter}, declared=False)
        for name, alone in (("a", engine), ("b", stricter)):
            play = Play(names=(NAME,), settings=suite.settings, conversations=[[trace]])
            assert [became[name]] == played(play, suite, alone, declared=False)[0]


def test_each_change_of_the_tables_is_one_that_policy_takes(tmp_path: Path) -> None:
    shipped = yaml.safe_load((ROOT / "policies" / "data.yaml").read_text())
    same = []
    for number, (name, change) in enumerate(CHANGES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        tables = yaml.safe_load((changed(change, folder) / "data.yaml").read_text())
        same += [name] if tables == shipped else []
    assert same == ["default, as shipped"]
