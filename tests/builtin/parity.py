"""A matrix of who calls what under which rule, and a site of it under a policy that OPA compiled.

What a tool is called says which rule is about it, and in which state its definition is: `staff_drifted`
is for the staff alone, and has changed since it was approved.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.domain._value import value
from gateway.domain.identity import Principal
from gateway.domain.tools import Kind, Profile, Target, UpstreamId
from gateway.policy.bundle import compile_wasm, prepare
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.toolchain import find_opa
from gateway.policy.wasm import WasmEngine
from tests.builtin.front import NOTES, Site, speaks, tool
from tests.pipeline.house import ALICE, MAIL
from tests.running import rules_in

CONFIG = {"roles": {"user": {"groups": ["users"]}, "admin": {"groups": ["admins"]}}}
RULES = """\
package douane

deny contains {"code": "hidden", "message": "nobody is to know of this"} if {
	startswith(input.target.name, "hidden_")
}

deny contains {"code": "staff", "message": "this is for the staff"} if {
	startswith(input.target.name, "staff_")
	not "staff" in input.principal.groups
}

deny contains {"code": "desk", "message": "this is for one client"} if {
	startswith(input.target.name, "desk_")
	input.principal.client.id != "desk"
}

deny contains {"code": "closed", "message": "this is closed"} if {
	input.phase == "call"
	startswith(input.target.name, "closed_")
}

ask contains {"code": "asked", "message": "somebody should look at this"} if {
	input.phase == "call"
	startswith(input.target.name, "asked_")
}

deny contains {"code": "guests", "message": "guests do not read notes"} if {
	input.target.server == "notes"
	"guests" in input.principal.groups
}
"""
"""Beside the shipped ones: whom a tool is hidden from, and what happens to calls of it."""

STATES = {
    "approved": None,
    "pending": "pin_pending",
    "drifted": "pin_drift",
    "back": "pin_drift",
    "revoked": "pin_revoked",
    "anew": None,
}
"""States of a definition, and the code of whoever may know of it. One that has changed `back` stays
drifted; one approved `anew` has changed before."""
WORDS = {
    "open": None,
    "hidden": None,
    "staff": None,
    "desk": None,
    "closed": "denied",
    "asked": "approval_required",
    "written": None,
}
"""Rules, and the code of a call of what is listed. What is `written` needs another scope."""


def _person(name: str, *, groups: tuple[str, ...] = ("users",), **more: Any) -> Principal:
    return replace(ALICE, subject=name, token_id=name, groups=frozenset(groups), **more)


PEOPLE = {
    one.subject: one
    for one in (
        _person("alice"),
        _person("sam", groups=("users", "staff")),
        _person("dee", client_id="desk"),
        _person("guy", groups=("users", "guests")),
        _person("nobody", groups=("strangers",)),
        _person("lists", scopes=frozenset({"tools:list"})),
        _person("reads", scopes=frozenset({"tools:call"})),
    )
}
SPOKEN = {
    "both": frozenset(Profile),
    "old": frozenset({Profile.LEGACY}),
    "new": frozenset({Profile.MODERN}),
}


@value
class Case:
    """One tool, as one principal has to do with it."""

    server: str
    rule: str
    state: str
    who: str
    profile: Profile
    """The client's. In which revision a call comes is no reason to judge it otherwise."""

    @property
    def tool(self) -> str:
        return f"{self.rule}_{self.state}"

    @property
    def name(self) -> str:
        """What it is called in front of all servers."""
        return f"{self.server}__{self.tool}"

    @property
    def visible(self) -> bool:
        """Whether the rules let the principal know of it; not read off the policy."""
        person = PEOPLE[self.who]
        return (
            "users" in person.groups
            and self.rule != "hidden"
            and (self.rule != "staff" or "staff" in person.groups)
            and (self.rule != "desk" or person.client_id == "desk")
            and (self.server != NOTES or "guests" not in person.groups)
        )

    @property
    def listed(self) -> bool:
        return self.visible and STATES[self.state] is None

    @property
    def code(self) -> str | None:
        """How its call ends."""
        if not self.visible:
            return "unknown_tool"
        scopes = PEOPLE[self.who].scopes
        # What a definition says of itself counts once somebody approved it.
        writes = self.rule == "written" or self.state == "pending"
        lacks = "tools:call" not in scopes or (writes and "tools:write" not in scopes)
        # Whoever grants a scope has not answered what else stands against the call.
        ends = WORDS[self.rule]
        if STATES[self.state] is not None:
            # That it waits is told to whom only that stands against, or a person's leave.
            denied = ends == "denied" or (lacks and ends is None)
            return "denied" if denied else STATES[self.state]
        return "insufficient_scope" if lacks and ends is None else ends


def cases(who: str, profile: Profile) -> list[Case]:
    """Return every tool for one principal with one client, in the order of a list."""
    servers = (str(MAIL), str(NOTES))
    return [
        Case(server=server, rule=rule, state=state, who=who, profile=profile)
        for server, rule, state in itertools.product(servers, sorted(WORDS), sorted(STATES))
    ]


def engine_of(folder: Path) -> WasmEngine:
    """Return the shipped policy with `RULES`, compiled; `folder` is for it alone."""
    policies = folder / "policies"
    rules_in(policies)
    (policies / "parity.rego").write_text(RULES)
    opa = find_opa()
    policy = prepare(opa, read_sources(PolicySettings(path=str(policies)), opa), CONFIG)
    return WasmEngine(
        compile_wasm(opa, policy), policy.data, digest=policy.digest, clock=lambda: 0.0
    )


class Parity:
    """A site that has the tools of a matrix on both servers, and knows every principal."""

    def __init__(
        self, engine: WasmEngine, spoken: frozenset[Profile], matrix: Sequence[Case]
    ) -> None:
        self._matrix = matrix
        self.site = Site(spoken=spoken)
        self._profiles = spoken
        house = self.site.house
        house.gate.people.update(PEOPLE)
        rule = house.rule
        for name in ("evaluate", "evaluate_many"):
            setattr(rule, name, getattr(engine, name))
        rule.digest = engine.digest
        for server in self.site.servers.values():
            server.answer = speaks()

    async def furnish(self) -> "Parity":
        """Show every tool in every family, and leave its definition in its state."""
        for server in (MAIL, NOTES):
            await self._furnish(server, [one.tool for one in self._matrix if one.server == server])
        return self

    async def _furnish(self, server: UpstreamId, names: Sequence[str]) -> None:
        at_first = {name: definition(name) for name in names}
        changed = {
            name: definition(name, "Something else.")
            if _is(name, "drifted", "back", "anew")
            else one
            for name, one in at_first.items()
        }
        back = {name: at_first[name] if _is(name, "back") else one for name, one in changed.items()}
        await self._show(server, at_first)
        await self._approve(server, [name for name in names if not _is(name, "pending")])
        await self._show(server, changed)
        await self._show(server, back)
        await self._approve(server, [name for name in names if _is(name, "anew")])
        await self._revoke(server, [name for name in names if _is(name, "revoked")])

    async def _show(self, server: UpstreamId, shown: Mapping[str, Mapping[str, Any]]) -> None:
        await self.site.show(server, *shown.values(), profiles=self._profiles, approve=False)

    async def _approve(self, server: UpstreamId, names: Sequence[str]) -> None:
        for name, profile in itertools.product(names, self._profiles):
            await self.site.approve(_target(server, name), profile)

    async def _revoke(self, server: UpstreamId, names: Sequence[str]) -> None:
        for name, profile in itertools.product(names, self._profiles):
            target = _target(server, name)
            await self.site.house.pins.revoke(target, profile, by="bob", note="")


def _is(name: str, *states: str) -> bool:
    return name.rpartition("_")[2] in states


def definition(name: str, description: str = "") -> dict[str, Any]:
    """Return what a server says of a tool; only one that is `written` does not say that it reads."""
    writes = {"annotations": {"readOnlyHint": False}} if name.startswith("written_") else {}
    told = description or f"Does {name.replace('_', ' and ')}."
    return tool(name, description=told, **writes)


def _target(server: UpstreamId, name: str) -> Target:
    return Target(server=server, kind=Kind.TOOL, name=name)


def plain(body: Any) -> str:
    """Return an answer without the ids that are made for each call, and what was meant instead."""
    if body.get("result", {}).get("isError"):
        del body["result"]["content"][1:]
    text = json.dumps(body, sort_keys=True)
    told = body.get("result", {}).get("_meta", {}).get("douane/refusal")
    refusal = told or body.get("error", {}).get("data", {})
    for name in ("decision_id", "approval_id"):
        text = text.replace(str(refusal.get(name, "-")), "-")
    return text
