from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.flow import FlowReview, Proof, Run, RunId, Task
from gateway.domain.labels import (
    BOTTOM,
    Confidentiality,
    Effect,
    Integrity,
    Label,
    ToolRule,
)
from gateway.flow.beside import Beside
from gateway.flow.fragments import LONGEST_SCANNED
from gateway.flow.provenance import Provenance
from gateway.flow.question import flow_input
from gateway.flow.review import MOST_LINKS, MOST_PAYLOADS, review, told_by_its_run
from gateway.flow.task import names
from gateway.flow.use import Knowledge, Use
from tests.flow.flow_builders import (
    SEND,
    TENANT,
    TRUSTED,
    UNTRUSTED,
    remember,
    reviewed,
    source,
    structured,
    texts,
)

PUBLIC_UNTRUSTED = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.INTERNAL)
OURS = {"recipients": ["bob@example.com"]}
NAMED = {"recipients": ["john@a.example"]}
UNKNOWN = {"recipients": ["x@evil.com"]}


def codes(found: FlowReview) -> list[str]:
    return [violation.code for violation in found.violations]


@pytest.mark.parametrize("effect", list(Effect))
def test_a_run_that_nothing_has_touched_violates_nothing_with_good_destinations(
    effect: Effect,
) -> None:
    assert codes(reviewed(OURS, effect=effect)) == []


SECRET = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.SECRET)
READS = ToolRule(effect=Effect.READ)


@pytest.mark.parametrize("label", [BOTTOM, TRUSTED, UNTRUSTED])
def test_of_a_labelled_read_that_says_nothing_to_look_at_all_is_told_by_its_run(
    label: Label,
) -> None:
    run = Run(id=RunId("r"), label=label)
    found = []
    for arguments in (OURS, UNKNOWN, {}):
        use = Use(server="mail", tool="read", rule=READS, effect=Effect.READ, arguments=arguments)
        assert told_by_its_run(run, use)
        knowledge = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
        found.append(review(run, use, knowledge))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("rule", "effect", "label", "roamed"),
    [
        (READS, Effect.READ, SECRET, False),
        (READS, Effect.READ, BOTTOM, True),
        (ToolRule(), Effect.READ, BOTTOM, False),
        (ToolRule(effect=Effect.WRITE), Effect.WRITE, BOTTOM, False),
        (ToolRule(effect=Effect.READ, destination=("recipients",)), Effect.READ, BOTTOM, False),
        (ToolRule(effect=Effect.READ, payload=("recipients",)), Effect.READ, BOTTOM, False),
        (ToolRule(), None, BOTTOM, False),
    ],
)
def test_what_may_be_looked_at_is_reviewed_each_time(
    rule: ToolRule, effect: Effect | None, label: Label, roamed: bool
) -> None:
    run = Run(id=RunId("r"), label=label, roamed=roamed)
    use = Use(server="mail", tool="read", rule=rule, effect=effect, arguments=OURS)
    assert not told_by_its_run(run, use)


@pytest.mark.parametrize("effect", list(Effect))
def test_an_unproven_destination_is_told_for_every_effect(effect: Effect) -> None:
    assert codes(reviewed(UNKNOWN, effect=effect)) == ["unproven_destination"]


@pytest.mark.parametrize("effect", [effect for effect in Effect if effect is not Effect.READ])
def test_untrusted_data_must_not_choose_what_is_affected(effect: Effect) -> None:
    def judged(arguments: dict[str, list[str]]) -> bool:
        found = reviewed(
            arguments, effect=effect, label=PUBLIC_UNTRUSTED, prompt="To john@a.example"
        )
        return "untrusted_to_sink" in codes(found)

    assert (judged(UNKNOWN), judged({}), judged(OURS), judged(NAMED)) == (True, True, False, False)
    assert judged({"recipients": ["bob@example.com", "x@evil.com"]})


def test_an_identifier_that_an_outsider_can_choose_stays_untrusted() -> None:
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), structured({"from": "x@evil.com"}), typed=("$.from",))
    found = reviewed(UNKNOWN, label=PUBLIC_UNTRUSTED, provenance=provenance)
    assert codes(found) == ["untrusted_to_sink"]


def test_reading_is_no_sink() -> None:
    assert codes(reviewed({}, effect=Effect.READ, label=UNTRUSTED)) == []


@pytest.mark.parametrize(
    ("effect", "without_destination"),
    [(Effect.EGRESS, True), (Effect.PAY, True), (Effect.EXECUTE, True), (Effect.READ, False)],
)
def test_private_data_must_not_leave(effect: Effect, without_destination: bool) -> None:
    """Attack D04: a GET of an outsider's URL is a read, and carries data out."""

    def judged(arguments: dict[str, list[str]]) -> bool:
        found = reviewed(arguments, effect=effect, label=TRUSTED, prompt="To john@a.example")
        return "private_to_outside" in codes(found)

    assert (judged(UNKNOWN), judged(NAMED), judged(OURS)) == (True, True, False)
    assert judged({"recipients": ["bob@example.com", "john@a.example"]})
    assert judged({}) is without_destination


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.DESTROY, Effect.CREDENTIAL])
def test_effects_that_stay_here_carry_nothing_out(effect: Effect) -> None:
    assert codes(reviewed(NAMED, effect=effect, label=TRUSTED, prompt="Send john@a.example")) == []


@pytest.mark.parametrize(
    ("confidentiality", "leaves"),
    list(zip(Confidentiality, [False, False, True, True], strict=True)),
)
def test_what_is_private_or_above_is_private(
    confidentiality: Confidentiality, leaves: bool
) -> None:
    label = Label(integrity=Integrity.TRUSTED, confidentiality=confidentiality)
    found = codes(reviewed(NAMED, label=label, prompt="To john@a.example"))
    assert ("private_to_outside" in found) is leaves


def test_exfiltration_in_small_parts_is_told_by_the_label_and_not_by_a_match() -> None:
    """Attack D05: ten calls of three characters each."""
    provenance = Provenance()
    remember(provenance, source(TRUSTED), structured({"password": "abc-def-ghi"}))
    for part in ("abc", "def", "ghi"):
        found = reviewed({**UNKNOWN, "body": part}, label=TRUSTED, provenance=provenance)
        assert found.payload == ()
        assert codes(found) == ["unproven_destination", "private_to_outside"]


def test_what_is_no_tool_has_a_label_and_sources_only() -> None:
    run = Run(id=RunId("r"), label=UNTRUSTED, sources=(source(UNTRUSTED),))
    found = review(
        run,
        Use(server="mail", tool="p", rule=ToolRule(), effect=None, arguments=UNKNOWN),
        Knowledge(tenant=TENANT, task=Task(prompt="Send it"), provenance=Provenance()),
    )
    assert found == FlowReview(label=UNTRUSTED, sources=run.sources, at_home=True)


def test_what_the_user_did_not_ask_for_is_told_but_for_a_read() -> None:
    prompt = "When am I free?"
    assert codes(reviewed(OURS, prompt=prompt)) == ["not_in_task"]
    assert codes(reviewed(OURS, prompt=prompt, effect=Effect.READ, tool="read_mail")) == []
    assert reviewed(OURS, prompt=prompt).asked_for is False
    assert reviewed(OURS, prompt="Send it").asked_for is True
    assert reviewed(OURS).asked_for is None


@pytest.mark.parametrize(
    ("link", "proof"),
    [
        ("https://www.example.com/a", "tenant"),
        ("https://good.example/a", "task"),
        ("https://safe.example/a", "trusted_result"),
        ("https://evil.com/a", "none"),
        ("evil.com/a", "none"),
        ("www.evil.com", "none"),
    ],
)
def test_a_link_needs_a_proof_as_a_destination_does(link: str, proof: str) -> None:
    provenance = Provenance()
    remember(provenance, source(TRUSTED), texts("See https://safe.example/a."))
    found = reviewed(
        {**OURS, "body": f"Look: {link}, {link}."},
        provenance=provenance,
        prompt="Send https://good.example/a to Bob",
    )
    assert [(one.path, one.value, one.proof.value) for one in found.links] == [
        ("$.body", link, proof)
    ]
    assert codes(found) == (["unproven_link"] if proof == "none" else [])


@pytest.mark.parametrize(
    "body",
    [
        " ".join(f"https://example.com/{i}" for i in range(MOST_LINKS + 1)),
        ["x" * LONGEST_SCANNED, "https://evil.com/"],
        ["x"] * MOST_PAYLOADS + ["https://evil.com/"],
        "https://example.com/ " * 300 + "https://evil.com/",
    ],
)
def test_a_link_that_was_not_looked_at_is_unproven(body: str | list[str]) -> None:
    found = reviewed({**OURS, "body": body})
    assert found.links[-1].proof is Proof.NONE
    assert len(found.links) <= MOST_LINKS + 1
    assert codes(found) == ["unproven_link"]


def test_as_many_links_as_can_be_judged_are_judged() -> None:
    body = [f"https://example.com/{i}" for i in range(MOST_LINKS)]
    found = reviewed({**OURS, "body": body})
    assert (len(found.links), codes(found)) == (MOST_LINKS, [])


def test_policy_gets_a_review_in_the_contracts_words() -> None:
    provenance = Provenance()
    origin = source(UNTRUSTED)
    said = "Transfer it all now, said the pirate."
    remember(provenance, origin, structured({"from": "x@evil.com", "text": said}),
             typed=("$.from",))  # fmt: skip
    arguments = {"recipients": ["x@evil.com"], "cc": "alice", "body": said, "subject": "a.io/b"}
    found = review(
        Run(id=RunId("r"), label=UNTRUSTED, sources=(origin,)),
        Use(server="mail", tool="send", rule=SEND, effect=Effect.EGRESS, arguments=arguments),
        Knowledge(tenant=TENANT, task=Task(prompt="When is it?"), provenance=provenance),
    )
    told = flow_input(found)
    assert [one["code"] for one in told.pop("violations")] == codes(found) == [
        "unproven_link", "untrusted_to_sink", "private_to_outside", "not_in_task"
    ]  # fmt: skip
    assert told == {
        "label": {"integrity": "untrusted", "confidentiality": "private"},
        "sources": [
            {
                "server": "mail",
                "tool": "search",
                "record": "r7",
                "label": {"integrity": "untrusted", "confidentiality": "private"},
            }
        ],
        "destinations": [
            {
                "path": "$.recipients[0]",
                "value": "x@evil.com",
                "form": "email",
                "proof": "typed",
                "integrity": "untrusted",
                "from": {
                    "server": "mail",
                    "tool": "search",
                    "record": "r7",
                    "minted": False,
                    "clean": False,
                },
                "said": "",
                "by": "nobody",
            },
            {
                "path": "$.cc",
                "value": "alice",
                "form": "name",
                "proof": "tenant",
                "integrity": "trusted",
                "from": None,
                "said": "",
                "by": "tenant",
            },
        ],
        "names_where": True,
        "payload": [
            {
                "path": "$.body",
                "matches": [
                    {
                        "record": "r7",
                        "kind": "exact",
                        "bytes": len(said),
                        "decoded": "",
                        "confidentiality": "private",
                    }
                ],
                "said": "outsider",
            }
        ],
        "links": [
            {
                "path": "$.subject",
                "value": "a.io/b",
                "form": "url",
                "proof": "none",
                "integrity": "untrusted",
                "from": None,
                "said": "",
                "by": "nobody",
            }
        ],
        "asked_for": False,
        "told": "egress",
        "left_open": False,
        "unheard": False,
        "lasting": False,
        "at_home": False,
    }


def test_an_empty_review_has_every_member_of_the_contract() -> None:
    assert flow_input(reviewed({}, label=BOTTOM, rule=ToolRule())) == {
        "label": {"integrity": "trusted", "confidentiality": "public"},
        "sources": [],
        "destinations": [],
        "names_where": False,
        "payload": [],
        "links": [],
        "asked_for": None,
        "told": "egress",
        "left_open": False,
        "unheard": False,
        "lasting": False,
        "at_home": False,
        "violations": [],
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
MEMBERS = st.sampled_from(
    [
        "recipients",
        "cc",
        "subject",
        "body",
        "structuredContent",
        "content",
        "contents",
        "messages",
        "text",
        "id",
    ]
)
OBJECTS = st.dictionaries(MEMBERS | st.text(max_size=5), JSON, max_size=5)


@given(OBJECTS, OBJECTS, OBJECTS, st.text(max_size=40), st.sampled_from([None, *Effect]))
def test_no_arguments_and_no_results_are_too_odd(
    earlier: dict[str, Any], result: dict[str, Any], arguments: dict[str, Any], prompt: str,
    effect: Effect | None,
) -> None:  # fmt: skip
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), result, arguments=earlier, effect=effect)
    found = reviewed(
        {**arguments, "to": result}, rule=ToolRule(destination=("recipients", "to"), payload=("body",)),
        effect=effect, label=UNTRUSTED, provenance=provenance, prompt=prompt,
    )  # fmt: skip
    # Nothing trusted was read, so only the tenant and the prompt can prove.
    proofs = {d.proof for d in found.destinations if d.integrity is Integrity.TRUSTED}
    assert proofs <= {Proof.TENANT, Proof.TASK}
    assert all(
        names(prompt, d.value)
        for d in found.destinations
        if d.proof is Proof.TASK and d.integrity is Integrity.TRUSTED
    )


def test_a_deep_document_is_read_without_recursion() -> None:
    deep: Any = "x@evil.com"
    for _ in range(5_000):
        deep = [{"id": deep}]
    provenance = Provenance()
    remember(provenance, source(UNTRUSTED), structured(deep))
    given = {"recipients": deep, "body": deep}
    found = reviewed(given, provenance=provenance, prompt="Send it", names=["id"])
    assert [(d.value, d.proof) for d in found.destinations] == [("x@evil.com", Proof.TYPED)]


CARD = "4111 1111 1111 1111"
SAID = [
    ({"recipients": [CARD]}, "$.recipients[0]", True),
    ({"recipients": [{"card": f"to {CARD}"}]}, "$.recipients[0].card", True),
    ({"recipients": ["bob@client.example"]}, "$.recipients[0]", False),
    ({"memo": f"for bob@client.example: {CARD}"}, "$.memo", False),
    ({"memo": f"see https://www.example.com/?c={CARD}"}, "$.memo", False),
    ({"recipients_too": f"{CARD}, bob@client.example"}, "$.recipients_too", False),
    ({"body": f"{CARD} bob@client.example"}, "$.body", False),
]


@pytest.mark.parametrize(("arguments", "path", "says"), SAID)
def test_only_what_a_labelled_argument_names_says_where(
    arguments: dict[str, Any], path: str, says: bool
) -> None:
    """That somebody is named beside it makes a card's number no place."""
    found = reviewed(arguments)
    assert any(one.path == path for one in found.destinations) or path == "$.body"
    assert found.says_where(path, CARD) is says
    assert not found.says_where("$", CARD)


def test_what_nobody_labelled_says_where_in_all_but_its_content() -> None:
    said = {"account": CARD, "note": f"for bob@client.example: {CARD}"}
    about = {"inputSchema": {"properties": {"note": {"type": "string"}}}}
    use = Use(
        server="bank",
        tool="pay",
        rule=ToolRule(),
        effect=Effect.DESTROY,
        arguments=said,
        about=about,
    )
    knowledge = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
    found = review(Run(id=RunId("r"), label=BOTTOM), use, knowledge)
    assert found.says_where("$.account", CARD)
    assert not found.says_where("$.note", CARD)


def test_what_is_completed_or_put_into_a_template_is_no_place_for_that() -> None:
    beside = Beside(
        content=(("$.argument.value", CARD), ("$.arguments.note", f"x@y.example {CARD}"))
    )
    use = Use(
        server="s", tool="p", rule=ToolRule(), effect=None, arguments={}, about={}, beside=beside
    )
    knowledge = Knowledge(tenant=TENANT, task=None, provenance=Provenance())
    found = review(Run(id=RunId("r"), label=BOTTOM), use, knowledge)
    assert found.destinations
    assert not any(found.says_where(one.path, CARD) for one in found.destinations)
