"""docs/kubernetes.md tells the values that there are, and shows what can be installed."""

import re
from typing import Any

import yaml

from gateway.wiring.serving import _PLANES_S
from gateway.wiring.tenure import DRAIN_S
from tests.deploy.charted import VALUES
from tests.deploy.restricted import LAST_WORDS_S
from tests.docs.pages import ROOT, blocks, prose, rows, spans

PAGE = ROOT / "docs" / "kubernetes.md"
CHART = ROOT / "deploy" / "helm" / "douane"


def test_every_value_is_told_with_its_default() -> None:
    there = yaml.safe_load((CHART / "values.yaml").read_text())
    told: dict[str, Any] = {}
    for row in rows(PAGE, "value"):
        (path,) = spans(row["value"])
        *folders, name = path.split(".")
        place, at = told, there
        for folder in folders:
            place, at = place.setdefault(folder, {}), at[folder]
        shown = spans(row["default"])
        assert shown or "values.yaml" in row["default"], path
        place[name] = yaml.safe_load(shown[0]) if shown else at[name]
    assert told == there


def test_what_the_page_installs_is_what_is_tried() -> None:
    shown = yaml.safe_load(next(text for text in blocks(PAGE, "yaml") if "publicUrl" in text))
    tried = yaml.safe_load(VALUES.read_text())
    del tried["network"]["metricsFrom"]
    for key in ("image", "secretFiles", "ingress"):
        shown.pop(key)
    assert shown == tried


def test_what_is_scaled_by_is_a_series() -> None:
    rules = next(text for text in blocks(PAGE, "yaml") if "seriesQuery" in text)
    (rule,) = yaml.safe_load(rules)["rules"]
    series = rule["seriesQuery"].partition("{")[0].removesuffix("_sum")
    told = {row["series"].strip("`") for row in rows(ROOT / "docs" / "operations.md", "series")}
    assert series in told
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert rule["name"]["as"] == values["autoscaling"]["metric"]


def test_the_seconds_of_an_end_are_the_codes() -> None:
    needed = re.search(r"add \.Values\.drain\.preStopSeconds (\d+)", _refusals())
    assert needed is not None
    assert int(needed[1]) >= DRAIN_S + _PLANES_S + LAST_WORDS_S
    assert f"At least {needed[1]} more" in prose(PAGE)
    assert f"calls under way get {DRAIN_S} seconds" in prose(PAGE)


def _refusals() -> str:
    return (CHART / "templates" / "_refusals.tpl").read_text()
