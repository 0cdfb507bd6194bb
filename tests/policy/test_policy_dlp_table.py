"""Lines under `dlp` that say nothing are told: a class that there is not, a word that is none."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.dlp import DlpSection
from gateway.errors import ConfigError
from gateway.policy.bundle import prepare
from gateway.policy.commands import check
from gateway.policy.dlp_table import absent_in_dlp
from gateway.policy.doubled import doubled
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources, read_sources
from gateway.policy.targets import Known
from gateway.policy.toolchain import find_opa
from gateway.wiring.sensitive import classes_of

KNOWN = Known(classes=classes_of(DlpSection()))
ROW = {"to": ["home"], "otherwise": "deny"}


@pytest.mark.parametrize(
    ("table", "problems"),
    [
        ({"arguments": {"card": ROW, "id_de": ROW, "own": ROW}, "results": {"iban": "mask"}}, []),
        ({"arguments": {"cards": ROW}}, ["arguments.cards: no class or group is called so"]),
        ({"results": {"own:x": "mask"}}, ["results.own:x: no class or group is called so"]),
        ({"arguments": {"card": {**ROW, "to": ["hom"]}}}, ["arguments.card: `to` is a list of"]),
        ({"arguments": {"card": {"to": []}}}, ["arguments.card: `otherwise` is ask or deny"]),
        ({"arguments": {"card": "deny"}}, ["arguments.card: `to`", "arguments.card: `otherwise`"]),
        ({"results": {"card": "hide"}}, ["results.card: is drop, mask, show, tokenize, withhold"]),
        (None, []),
    ],
)
def test_what_says_nothing_is_told(table: Any, problems: list[str]) -> None:
    told = absent_in_dlp(table, KNOWN.classes)
    assert len(told) == len(problems)
    assert all(f"data.douane.dlp.{p}" in t for p, t in zip(problems, told, strict=True))


def put(folder: Path, data: str) -> Sources:
    (folder / "data.yaml").write_text(data)
    (folder / "a.rego").write_text("package douane\n\ndecision := 1\n")
    opa = find_opa()
    return read_sources(PolicySettings(path=str(folder)), opa)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("douane: {dlp: {results: {iban: tokens}}}\n", "results.iban: is drop"),
        ("douane: {dlp: {arguments: {card: {to: [home], otherwise: refuse}}}}\n", "ask or deny"),
        ("douane: {dlp: {results: {cards: mask}}}\n", "no class or group is called so"),
        ("douane:\n  a: 1\ndouane:\n  b: 1\n", "data.yaml:3: `douane` stands in line 1 already"),
        ("a:\n  - b: 1\n    b: 2\n", "data.yaml:3: `b` stands in line 2 already"),
        ("a: {b: 1, b: 2}\n", "data.yaml:1: `b` stands in line 1 already"),
        ("a: {b: {c: b}, d: [b, b], b: 2}\n", "data.yaml:1: `b` stands in line 1 already"),
        ("? [a, a]\n: b\na: 1\na: b\n", "data.yaml:4: `a` stands in line 3 already"),
        ("a: &x\n  b: *x\n", "anchor 'x' value contains itself"),
    ],
)
def test_what_says_nothing_does_not_come_into_force(
    tmp_path: Path, data: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        prepare(find_opa(), put(tmp_path, data), {})
    assert any(problem in one for one in refused.value.problems)


@pytest.mark.parametrize("opening", ["[", "- "])
def test_a_document_that_is_very_deep_is_refused(tmp_path: Path, opening: str) -> None:
    with pytest.raises(ConfigError) as refused:
        prepare(find_opa(), put(tmp_path, "\n" + opening * 400_000), {})
    assert any("data.yaml" in one for one in refused.value.problems)


def test_what_is_too_deep_to_come_into_force_is_looked_at_no_further() -> None:
    for levels, told in ((900, 1), (1100, 0)):
        text = b"[" * levels + b"{a: 1, a: 1}" + b"]" * levels
        assert len(doubled({"data.yaml": text})) == told


def test_what_stands_once_in_each_mapping_is_taken(tmp_path: Path) -> None:
    data = "a: &x {b: 1, c: b}\nb: [{b: *x}, {b: *x}]\nc: {b: b}\n"
    prepare(find_opa(), put(tmp_path, data), {})


def test_a_class_of_an_operators_own_comes_into_force(tmp_path: Path) -> None:
    prepare(find_opa(), put(tmp_path, 'douane: {dlp: {results: {"own:x": mask}}}\n'), {})


async def test_a_check_tells_of_it(tmp_path: Path) -> None:
    put(tmp_path, 'douane: {dlp: {results: {"own:x": mask}}}\n')
    told = await check(PolicySettings(path=str(tmp_path)), {}, KNOWN)
    assert any("data.douane.dlp.results.own:x" in problem for problem in told.problems)
