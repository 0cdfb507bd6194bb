"""Suggested labels under the shipped policies: what needs no person's yes only ever refuses more."""

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pytest

from gateway.domain._value import value
from gateway.domain.document import Document
from gateway.domain.flow import Run, RunId, Source, Task
from gateway.domain.labels import Confidentiality, Effect, Integrity, Label, ServerRule, ToolRule
from gateway.domain.tools import Kind, Manifest, Profile, Target, UpstreamId
from gateway.flow.effects import effect_of
from gateway.flow.provenance import Provenance
from gateway.flow.question import flow_input
from gateway.flow.reading import Answered
from gateway.flow.review import review
from gateway.flow.suggest import joined, suggestion_for
from gateway.flow.use import Knowledge, Use
from gateway.policy.bundle import compile_wasm, prepare
from gateway.policy.opa import Opa
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import read_sources
from gateway.policy.wasm import WasmEngine
from tests.cases import sampled
from tests.flow.flow_builders import TENANT
from tests.flow.taken import accepted_rule, live_rule
from tests.policy.policy_questions import CONFIG, POLICIES

VERBS = ("get", "rename", "send", "buy", "delete", "grant", "run", "frobnicate")
THINGS = ("page", "payment", "message", "api_key", "and_delete")
ARGUMENTS = ((), ("to", "body"), ("url", "query"), ("file_id", "reason"), ("command",), ("amount",))
TEXTS = (
    None,
    "Returns a page.",
    "Gets it. It also sends it on.",
    "Returns the password of a user.",
)
HINTS = (None, False, True)
SCOPES = ["tools:call", "tools:read", "tools:write"]
OURS, FOUND, UNKNOWN = "emma@home.example", "item-4711-found", "nobody knows this one"
LABELS = tuple(
    Label(integrity=integrity, confidentiality=confidentiality)
    for integrity in Integrity
    for confidentiality in Confidentiality
)
PROMPTS = (None, f"Please delete the page {FOUND}.", "Hello.")
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
QUESTION: dict[str, Any] = {
    "phase": "call",
    "method": "tools/call",
    "principal": {"sub": "emma", "groups": ["users"], "scopes": SCOPES},
    "target": {"server": "s", "kind": "tool", "name": "t", "pin": {"status": "approved"}},
    "arguments": {},
}


def definitions() -> Iterator[dict[str, Any]]:
    for verb, thing, arguments, text, hint in itertools.product(
        VERBS, THINGS, ARGUMENTS, TEXTS, HINTS
    ):
        yield {
            "name": f"{verb}_{thing}",
            "description": text,
            "inputSchema": {"properties": {name: {"type": "string"} for name in arguments}},
            "outputSchema": {"properties": {"id": {"type": "string"}}},
            "annotations": {} if hint is None else {"readOnlyHint": hint},
        }


def manifest(definition: dict[str, Any]) -> Manifest:
    target = Target(server=UpstreamId("s"), kind=Kind.TOOL, name=definition["name"])
    return Manifest(target=target, profile=Profile.MODERN, definition=Document.of(definition))


@value
class Call:
    """A call of a tool, whatever its labels, in a run that has seen one result."""

    label: Label
    text: str
    """The value of every argument."""
    origin: Label
    """Of the result, an identifier of which is `FOUND`."""
    prompt: str | None = None
    besides: Mapping[str, str] = field(default_factory=dict)
    """The values of arguments that have others."""


CALLS = tuple(
    Call(label=label.join(origin), text=text, origin=origin, prompt=prompt)
    for label in LABELS
    for origin in LABELS[2::4]
    for text in (OURS, FOUND, UNKNOWN)
    for prompt in PROMPTS
)


class Judge:
    """Asks the shipped policies about calls, each question once."""

    def __init__(self, engine: WasmEngine) -> None:
        self._engine = engine
        self._known: dict[str, int] = {}

    async def strictness(self, rule: ToolRule, definition: dict[str, Any], call: Call) -> int:
        """How strict the answer to a call is, where its tool is labelled with `rule`."""
        shown = manifest(definition)
        effect = effect_of(rule, shown)
        source = Source(server="s", tool="list", record="r7", label=call.origin)
        provenance = Provenance()
        provenance.remember(
            Answered(
                source=source,
                effect=Effect.READ,
                arguments={},
                content={"structuredContent": {"id": FOUND}},
                octets=100,
                typed=("$.id",),
            )
        )
        found = review(
            Run(id=RunId("r"), label=call.label, sources=(source,)),
            Use(
                server="s",
                tool=definition["name"],
                rule=rule,
                effect=effect,
                arguments={
                    **dict.fromkeys(definition["inputSchema"]["properties"], call.text),
                    **call.besides,
                },
                about=definition,
            ),
            Knowledge(
                tenant=TENANT,
                task=None if call.prompt is None else Task(prompt=call.prompt),
                provenance=provenance,
            ),
        )
        return await self._asked({**QUESTION, "flow": flow_input(found)}, effect)

    async def _asked(self, question: dict[str, Any], effect: Effect) -> int:
        question["target"] = {**QUESTION["target"], "effect": effect.value}
        key = json.dumps(question, sort_keys=True)
        if key not in self._known:
            decision = await self._engine.evaluate(question)
            self._known[key] = STRICTNESS[decision.verdict.value]
        return self._known[key]


@pytest.fixture(scope="module", params=["default", pytest.param("strict", marks=pytest.mark.full)])
def engine(
    opa: Opa, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> WasmEngine:
    """The shipped policies, with each of their profiles. Their own tests are of one of them."""
    folder = tmp_path_factory.mktemp(request.param) / "policies"
    shutil.copytree(POLICIES, folder, ignore=shutil.ignore_patterns("*_test.rego", "cases"))
    data = (folder / "data.yaml").read_text("utf-8")
    chosen = data.replace("    profile: default\n", f"    profile: {request.param}\n")
    assert f"profile: {request.param}\n" in chosen
    (folder / "data.yaml").write_text(chosen, "utf-8")
    policy = prepare(opa, read_sources(PolicySettings(path=str(folder)), opa), CONFIG)
    return WasmEngine(
        compile_wasm(opa, policy), policy.data, digest=policy.digest, clock=lambda: 0.0
    )


def corpus() -> Iterator[dict[str, Any]]:
    """One tool for each live rule, effect without it and list of arguments."""
    known = set()
    for definition in definitions():
        rule = live_rule(suggestion_for(definition))
        arguments = tuple(definition["inputSchema"]["properties"])
        kind = (rule.effect, rule.destination, rule.payload, plain_effect(definition), arguments)
        if kind not in known:
            known.add(kind)
            yield definition


def plain_effect(definition: dict[str, Any]) -> Effect:
    return effect_of(ToolRule(), manifest(definition))


@pytest.mark.parametrize(
    "calls", sampled([(CALLS[::9],), (CALLS,)], lambda case: case[0] is not CALLS), ids=len
)
async def test_a_live_suggestion_refuses_all_that_no_label_refuses(
    engine: WasmEngine, calls: Sequence[Call]
) -> None:
    judge = Judge(engine)
    raised = 0
    for definition in corpus():
        rule = live_rule(suggestion_for(definition))
        for call in calls:
            before = await judge.strictness(ToolRule(), definition, call)
            after = await judge.strictness(rule, definition, call)
            assert after >= before, (definition, call)
            raised += after > before
    assert raised > len(calls)


@pytest.mark.parametrize("engine", ["default"], indirect=True)
@pytest.mark.parametrize("member", ["effect", "destination"])
async def test_a_question_is_one_because_its_answer_can_allow_more(
    engine: WasmEngine, member: str
) -> None:
    judge = Judge(engine)
    name = {"effect": "get_page", "destination": "delete_page"}[member]
    given = {"effect": ("user",), "destination": ("user", "level")}[member]
    shapes = {each: {"type": "string"} for each in given}
    definition = {"name": name, "inputSchema": {"properties": shapes}}
    suggestion = suggestion_for(definition)
    assert suggestion.lowers == (member,)
    text = {"effect": UNKNOWN, "destination": OURS}[member]
    besides = dict.fromkeys(given[1:], UNKNOWN)
    call = Call(label=LABELS[0], text=text, origin=LABELS[0], besides=besides)
    assert await judge.strictness(ToolRule(), definition, call) == STRICTNESS["ask"]
    assert await judge.strictness(live_rule(suggestion), definition, call) == STRICTNESS["ask"]
    assert (
        await judge.strictness(accepted_rule(suggestion), definition, call) == STRICTNESS["allow"]
    )


@pytest.mark.full
async def test_a_live_suggestion_for_two_definitions_refuses_what_either_does(
    engine: WasmEngine,
) -> None:
    judge = Judge(engine)
    for one, other in itertools.pairwise([*corpus()][::3]):
        rule = live_rule(joined([suggestion_for(one), suggestion_for(other)]))
        for definition in (one, other):
            for call in CALLS[::7]:
                before = await judge.strictness(ToolRule(), definition, call)
                assert await judge.strictness(rule, definition, call) >= before, (one, other)


def test_no_live_label_of_results_is_milder_than_any_default_of_a_server() -> None:
    rules = [live_rule(suggestion_for(definition)) for definition in definitions()]
    assert {rule.typed for rule in rules} == {()}
    for rule, default in itertools.product(rules, LABELS):
        label = ServerRule(default=default, tools={"tool": rule}).result_of("tool")
        assert label == label.join(default)
