"""Golden pairs of definitions: what must look the same, what must not, what must be refused."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, UpstreamId
from gateway.pins.catalog import read_list
from gateway.pins.diff import classify
from gateway.pins.tiers import Tier
from tests.pins.pin_builders import definition, manifest

VECTORS = json.loads((Path(__file__).parent / "vectors" / "hash_vectors.json").read_text())
PAIRS = VECTORS["vectors"]


def pairs(expect: str) -> list[Any]:
    return [pytest.param(pair, id=pair["id"]) for pair in PAIRS if pair["expect"] == expect]


def read(text: str) -> Manifest:
    content = Document(text).content
    reading = read_list(UpstreamId("weather"), Profile.MODERN, Kind.TOOL, [content], "1")
    if reading.rejected:
        raise ValueError(reading.rejected[0].reason)
    return reading.manifests[0]


@pytest.mark.parametrize("pair", pairs("same"))
def test_what_means_the_same_has_the_same_digest(pair: dict[str, str]) -> None:
    assert read(pair["a"]).digest == read(pair["b"]).digest


@pytest.mark.parametrize("pair", pairs("reject"))
def test_what_means_different_things_to_different_readers_is_refused(pair: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(pair["a"])


@pytest.mark.parametrize("pair", pairs("diff"))
def test_every_other_change_alarms_at_its_tier(pair: dict[str, str]) -> None:
    before, after = read(pair["b"]), read(pair["a"])
    assert before.digest != after.digest
    assert classify(before, after).tier == pair["tier"][:2]


FINDINGS = {"zwsp": "hidden_characters", "tag-chars": "hidden_characters", "case-key": "twin_key"}


@pytest.mark.parametrize("pair", [p for p in pairs("diff") if p.id in FINDINGS])
def test_a_change_that_hides_something_says_so(pair: dict[str, str]) -> None:
    words = classify(read(pair["b"]), read(pair["a"])).words
    assert FINDINGS[pair["id"]] in words["findings"]


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for step in path[:-1]:
            content = content.setdefault(step, {})
        content[path[-1]] = to

    return change


CITY = ("inputSchema", "properties", "city")
OPERATORS = {
    "description": (_set("description", to="Get the weather for a city. And more."), Tier.TEXT),
    "title": (_set("title", to="Weather. And more."), Tier.TEXT),
    "parameter description": (_set(*CITY, "description", to="City name. More."), Tier.TEXT),
    "new parameter": (_set("inputSchema", "properties", "n", to={}), Tier.CONTRACT),
    "enum": (_set(*CITY, "enum", to=["Rome"]), Tier.CONTRACT),
    "default": (_set(*CITY, "default", to="Rome"), Tier.CONTRACT),
    "output schema": (_set("outputSchema", to={"type": "object"}), Tier.CONTRACT),
    "readOnlyHint": (_set("annotations", "readOnlyHint", to=False), Tier.RISK),
    "annotations title": (_set("annotations", "title", to="W"), Tier.TEXT),
    "icons": (_set("icons", to=[{"src": "https://a.example/i.png"}]), Tier.COSMETIC),
    "_meta": (_set("_meta", to={"x": "y"}), Tier.TEXT),
    "unknown": (_set("futureField", to={"x": 1}), Tier.TEXT),
    "header": (_set(*CITY, "x-mcp-header", to="City"), Tier.CONTRACT),
    "mapping": (_set("inputSchema", "x-authzen-mapping", to={"evaluation": {}}), Tier.RISK),
}


@pytest.mark.parametrize(("operator", "tier"), OPERATORS.values(), ids=OPERATORS)
def test_every_mutation_alarms(operator: Callable[[dict[str, Any]], None], tier: Tier) -> None:
    content = copy.deepcopy(definition())
    operator(content)
    assert manifest(content).digest != manifest().digest
    assert classify(manifest(), manifest(content)).tier is tier
