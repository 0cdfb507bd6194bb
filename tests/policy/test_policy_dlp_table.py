"""Lines under `dlp` that say nothing are told: a class that there is not, a word that is none."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.dlp import DlpSection
from gateway.policy.commands import check
from gateway.policy.settings import PolicySettings
from gateway.policy.targets import Known, absent_in_dlp
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
    told = absent_in_dlp(table, KNOWN)
    assert len(told) == len(problems)
    assert all(f"data.douane.dlp.{p}" in t for p, t in zip(problems, told, strict=True))


async def test_a_check_tells_of_it(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("douane: {dlp: {results: {cards: mask}}}\n")
    (tmp_path / "a.rego").write_text("package douane\n\ndecision := 1\n")
    told = await check(PolicySettings(path=str(tmp_path)), {}, KNOWN)
    assert any("data.douane.dlp.results.cards" in problem for problem in told.problems)
