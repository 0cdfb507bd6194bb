"""What is listed is found, described and callable, and all else is unknown everywhere: case by case."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from gateway.domain.tools import Profile
from gateway.policy.wasm import WasmEngine
from tests.builtin.front import OWN_TOOLS, Site
from tests.builtin.parity import PEOPLE, SPOKEN, WORDS, Case, Parity, cases, engine_of, plain
from tests.pipeline.house import Seen


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> WasmEngine:
    return engine_of(tmp_path_factory.mktemp("parity"))


def combinations() -> Iterator[Any]:
    """Yield who calls in which revision and how; in a short run each person once, and each way in both."""
    numbered = itertools.product(enumerate(PEOPLE), enumerate(Profile), enumerate(SPOKEN))
    for (person, who), (revision, profile), (way, spoken) in numbered:
        short = (person % len(Profile), person % len(SPOKEN)) == (revision, way)
        yield pytest.param(who, profile, spoken, marks=() if short else pytest.mark.full)


class Caller:
    """One principal with one client, in front of all servers."""

    def __init__(self, site: Site, who: str, profile: Profile) -> None:
        self._site = site
        self._caller: dict[str, Any] = {"who": who, "profile": profile}
        if profile is Profile.LEGACY:
            self._caller["session"] = "e.1"

    async def use(self, name: str, arguments: Mapping[str, Any]) -> Seen:
        params = {"name": name, "arguments": arguments}
        return await self._site.ask("tools/call", params, **self._caller)

    async def listed(self) -> list[str]:
        return [name for name in await self._site.names(**self._caller) if name not in OWN_TOOLS]

    async def said(self, name: str, **arguments: Any) -> Any:
        """Return what one of the gateway's own tools answered."""
        answered = (await self.use(name, arguments)).json["result"]
        assert not answered.get("isError"), answered
        return json.loads(answered["content"][0]["text"])

    async def found(self, **arguments: Any) -> list[str]:
        answered = await self.said("search_tools", detail="name", limit=50, **arguments)
        names = [name for names in answered["servers"].values() for name in names]
        assert answered["found"] == len(names)
        return names

    async def described(self, names: Sequence[str]) -> dict[str, str]:
        """Return the hash of each definition that is told."""
        hashes: dict[str, str] = {}
        for first in range(0, len(names), 50):
            some = names[first : first + 50]
            answered = await self.said("get_tool_details", names=some)
            told = {one["definition"]["name"]: one["definition_hash"] for one in answered["tools"]}
            assert [*answered["unknown"]] == [name for name in some if name not in told]
            hashes |= told
        return hashes

    async def end(self, name: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return how a call ends, but for what tells it from another one."""
        seen = await self.use(name, arguments)
        return (seen.reply.status, seen.reply.code, plain(seen.json))


@pytest.mark.parametrize(("who", "profile", "spoken"), list(combinations()), ids=str)
async def test_list_search_details_and_both_ways_to_call_agree(
    engine: WasmEngine, who: str, profile: Profile, spoken: str
) -> None:
    """Whatever somebody may not know of is as if it were not there: so it is in a second site."""
    matrix = cases(who, profile)
    sites = [
        (await Parity(engine, SPOKEN[spoken], tools).furnish()).site
        for tools in (matrix, [case for case in matrix if case.visible])
    ]
    caller, without = (Caller(site, who, profile) for site in sites)
    listed = await caller.listed()
    assert listed == [case.name for case in matrix if case.listed]
    found = [
        name for rule in WORDS for name in await caller.found(query=f"{rule}_", strategy="regex")
    ]
    assert sorted(found) == listed
    hashes = await caller.described([case.name for case in matrix])
    assert list(hashes) == listed
    for case in matrix:
        await _agree(caller, case, hashes.get(case.name))
        if not case.visible:
            assert await caller.end(case.name, {}) == await without.end(case.name, {}), case
    for words in sorted({case.tool.replace("_", " ") for case in matrix}):
        hits = await caller.found(query=words)
        assert hits == await without.found(query=words)
        meant = {case.name: case.listed for case in matrix if case.tool.replace("_", " ") == words}
        assert {name: name in hits for name in meant} == meant
    for site in sites:
        await site.aclose()


async def _agree(caller: Caller, case: Case, hash_: str | None) -> None:
    direct = await caller.end(case.name, {})
    assert direct[1] == case.code, case
    assert await caller.end("call_tool", {"name": case.name}) == direct, case
    if hash_ is not None:
        exactly = {"name": case.name, "arguments": {}, "definition_hash": hash_}
        assert await caller.end("call_tool", exactly) == direct, case


async def test_the_matrix_has_every_end_there_is_many_times() -> None:
    codes = [
        case.code
        for who, profile in itertools.product(PEOPLE, Profile)
        for case in cases(who, profile)
    ]
    counts = {code: codes.count(code) for code in codes}
    assert counts.keys() == {
        None,
        "unknown_tool",
        "denied",
        "approval_required",
        "insufficient_scope",
        "pin_pending",
        "pin_drift",
        "pin_revoked",
    }
    assert len(codes) * len(SPOKEN) > 3_000
    assert min(counts.values()) >= 10, counts
