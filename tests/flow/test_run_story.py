"""A run's records make one story, and the story a table of rows and a picture."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.flow.picture import picture
from gateway.flow.story import Step, Story, rows, tell

CLEAN = {"integrity": "trusted", "confidentiality": "public"}
PRIVATE = {"integrity": "untrusted", "confidentiality": "private"}
SVG = "{http://www.w3.org/2000/svg}"


def record(kind: str, decision: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{kind}-{decision}",
        "time": "2026-11-21T23:00:00.000000Z",
        "kind": kind,
        "run": "r_1",
        "decision_id": decision,
        "method": "tools/call",
        "server": "mail",
        "label_before": CLEAN,
        "verdict": "allow",
        **fields,
    }


READ = [
    record("intent", "d_1", target="read", effect="read"),
    record("outcome", "d_1", target="read", effect="read", label_after=PRIVATE),
]
TO = {"path": "$.to", "proof": "none", "integrity": "untrusted"}
REFUSED = record(
    "outcome",
    "d_2",
    target="post",
    server="web",
    effect="egress",
    verdict="deny",
    code="denied",
    label_before=PRIVATE,
    destinations=[TO],
    reasons=[
        {"code": "denied", "message": "no"},
        {"code": "private_to_outside", "message": "private data was read"},
    ],
)


def test_a_call_that_named_an_unknown_run_says_so() -> None:
    (step,) = rows(tell("r_1", [{**REFUSED, "label_because": "unknown_run"}]))
    assert step["label_because"] == "unknown_run"


def test_a_call_is_one_step_and_says_how_it_ended() -> None:
    (read, refused) = rows(tell("r_1", [*READ, REFUSED]))
    assert read == {
        "run": "r_1",
        "seq": 1,
        "depth": 0,
        "time": "2026-11-21T23:00:00.000000Z",
        "server": "mail",
        "target": "read",
        "method": "tools/call",
        "effect": "read",
        "verdict": "allow",
        "code": None,
        "reasons": [],
        "label_before": CLEAN,
        "label_because": None,
        "label_after": PRIVATE,
        "destinations": [],
        "decision_id": "d_1",
        "record": "outcome-d_1",
        "origin": None,
        "script_sha256": None,
    }
    assert (refused["seq"], refused["verdict"], refused["code"]) == (2, "deny", "denied")
    assert refused["reasons"] == ["denied", "private_to_outside"]
    assert refused["label_after"] == PRIVATE
    assert refused["destinations"] == [TO]


def test_a_refusal_tells_policys_own_code() -> None:
    (step,) = tell("r_1", [REFUSED]).steps
    assert (step.refused, step.why) == (True, "private_to_outside")
    (bare,) = tell("r_1", [{**REFUSED, "reasons": []}]).steps
    assert bare.why == "denied"


def test_a_call_without_an_outcome_is_told_as_one_that_nobody_knows() -> None:
    (step,) = tell("r_1", READ[:1]).steps
    assert (step.verdict, step.code, step.refused) == ("unknown", "outcome_unknown", False)


@pytest.mark.parametrize("code", ["client_gone", "outcome_unknown"])
def test_so_is_a_call_whose_end_nobody_was_there_to_see(code: str) -> None:
    cut = {**READ[-1], "verdict": "allow", "code": code}
    (step,) = tell("r_1", [READ[0], cut]).steps
    assert (step.verdict, step.code, step.refused) == ("unknown", code, False)


def test_an_intent_that_comes_late_takes_nothing_back() -> None:
    assert tell("r_1", READ[::-1]).steps == tell("r_1", READ).steps


@pytest.mark.parametrize(
    "left_out",
    [
        record("outcome", "d_3", method="initialize"),
        record("list", "d_4", method="tools/list", target="x"),
        record("auth", "d_5", verdict="deny"),
        record("pin", "d_6", target="read"),
    ],
    ids=["handshake", "list", "auth", "pin"],
)
def test_what_is_no_call_is_left_out(left_out: dict[str, Any]) -> None:
    assert tell("r_1", [left_out]).steps == ()


def test_what_a_host_and_a_person_did_is_told() -> None:
    lowered = record("run", "", method="runs.relabel", id="id-9", server="", code="relabelled")
    begun = record("run", "d_7", method="douane/run/begin", code="begun")
    refused = record("outcome", "d_8", method="initialize", verdict="deny", code="denied")
    told = [step.name for step in tell("r_1", [begun, lowered, refused]).steps]
    assert told == ["douane/run/begin", "runs.relabel", "initialize"]


HELD = [
    record("approval", "d_3", id="1", target="post", method="approvals.ask", code="asked"),
    {
        **REFUSED,
        "decision_id": "d_3",
        "id": "2",
        "verdict": "ask",
        "code": "approval_required",
        "reasons": [{"code": "approval_required"}, {"code": "private_to_outside"}],
    },
]


@pytest.mark.parametrize(
    ("method", "code", "told"),
    [
        ("approvals.allow", "allowed", "allow"),
        ("approvals.deny", "denied", "deny"),
        ("approvals.form", "allowed", "allow"),
    ],
)
def test_what_a_person_says_of_a_held_call_does_not_change_that_it_was_held(
    method: str, code: str, told: str
) -> None:
    said = record("approval", "d_3", id="3", target="post", method=method, code=code)
    said["reasons"] = [{"code": code}, {"code": "note"}]
    story = tell("r_1", [*HELD, said])
    held, answer = story.steps
    assert (held.verdict, held.code, held.record) == ("ask", "approval_required", "2")
    assert (held.refused, held.why) == (True, "private_to_outside")
    assert (answer.verdict, answer.name, answer.record) == (told, method, "3")
    assert (answer.server, answer.why) == ("", code)
    (red,) = lines(svg := picture(story, {}))
    assert red.get("marker-end") == "url(#to-refused)"
    assert {"refused: private_to_outside", "2 steps, 1 refused"} <= set(texts(svg))


@pytest.mark.parametrize("parent", ["d_1", "1"], ids=["decision", "call"])
def test_what_was_asked_meanwhile_stands_below_its_call(parent: str) -> None:
    asked = record("outcome", "d_3", target="sampling/createMessage", parent=parent)
    story = tell("r_1", [*READ, asked, REFUSED])
    assert [(depth, step.name) for depth, step in story.walk()] == [
        (0, "read"),
        (1, "sampling/createMessage"),
        (0, "post"),
    ]
    assert [row["depth"] for row in rows(story)] == [0, 1, 0]


def test_a_parent_that_is_not_there_or_comes_later_is_none() -> None:
    lost = record("outcome", "d_3", target="a", parent="d_none")
    itself = record("outcome", "d_4", target="b", parent="d_4")
    early = record("outcome", "d_5", target="c", parent="d_2")
    story = tell("r_1", [lost, itself, early, REFUSED])
    assert [depth for depth, _ in story.walk()] == [0, 0, 0, 0]


def test_of_a_long_story_the_end_is_told_and_that_it_is_not_all() -> None:
    many = [record("outcome", f"d_{n}", target=f"t{n}") for n in range(5)]
    story = tell("r_1", many, most=3)
    assert [step.name for step in story.steps] == ["t2", "t3", "t4"]
    assert [step.seq for step in story.steps] == [1, 2, 3]
    assert story.left_out
    assert not tell("r_1", many, most=5).left_out
    assert tell("r_1", many, most=5, cut=True).left_out


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["id", "kind", "decision_id", "parent", "target", "reasons", "verdict"]
            ),
            st.none()
            | st.sampled_from(["intent", "outcome", "run", "d_1", "1"])
            | st.lists(st.none()),
        ),
        max_size=20,
    )
)
def test_no_record_is_too_odd_for_a_story(records: list[dict[str, Any]]) -> None:
    story = tell("r_1", records)
    assert sorted(step.seq for _, step in story.walk()) == [*range(1, len(rows(story)) + 1)]
    ET.fromstring(picture(story, {}))


# The picture.


def lines(svg: str) -> list[ET.Element]:
    return [line for line in ET.fromstring(svg).iter(f"{SVG}line") if line.get("marker-end")]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_read_points_to_the_agent_and_a_refused_call_to_the_server_in_red() -> None:
    svg = picture(tell("r_1", [*READ, REFUSED]), {("mail", "read"): PRIVATE})
    read, refused = lines(svg)
    agent = 500
    assert abs(float(read.get("x2", 0)) - agent) < abs(float(read.get("x1", 0)) - agent)
    assert abs(float(refused.get("x2", 0)) - agent) > abs(float(refused.get("x1", 0)) - agent)
    assert (read.get("marker-end"), read.get("stroke-dasharray")) == ("url(#to-private)", "6 4")
    assert (refused.get("marker-end"), refused.get("stroke")) == ("url(#to-refused)", "#c62828")
    for told in ("1. read", "untrusted, private", "2. post", "refused: private_to_outside"):
        assert told in texts(svg)
    assert {"agent", "mail", "web", "public", "internal", "private", "secret"} <= set(texts(svg))
    assert "2 steps, 1 refused" in texts(svg)


def test_a_read_has_the_colour_of_its_own_result_and_not_of_the_run() -> None:
    svg = picture(tell("r_1", READ), {("mail", "read"): CLEAN})
    (read,) = lines(svg)
    assert (read.get("marker-end"), read.get("stroke-dasharray")) == ("url(#to-public)", None)


def test_a_call_that_passed_has_the_colour_of_what_the_run_had_seen() -> None:
    sent = record("outcome", "d_3", target="send", effect="egress", label_before=PRIVATE)
    (call,) = lines(picture(tell("r_1", [sent]), {}))
    assert (call.get("marker-end"), call.get("stroke-dasharray")) == ("url(#to-private)", "6 4")


def test_calls_that_look_alike_are_one_arrow() -> None:
    many = [record("outcome", f"d_{n}", target="read", effect="read") for n in range(50)]
    svg = picture(tell("r_1", many), {})
    assert len(lines(svg)) == 1
    assert "1. read (50 calls)" in texts(svg)


def test_of_very_many_kinds_of_calls_the_rest_is_counted() -> None:
    many = [record("outcome", f"d_{n}", target=f"t{n}", effect="read") for n in range(95)]
    svg = picture(tell("r_1", many), {})
    assert len(lines(svg)) == 80
    assert any("15 more calls are not drawn" in text for text in texts(svg))


def test_a_story_without_calls_and_one_that_is_cut_are_pictures_too() -> None:
    assert lines(picture(Story(run="r_1", steps=()), {})) == []
    cut = picture(Story(run="r_1", steps=(), left_out=True), {})
    assert "0 steps, 0 refused; earlier steps are left out" in texts(cut)


@given(st.text(), st.text(), st.text(), st.text())
def test_no_name_gets_out_of_its_text(run: str, server: str, name: str, code: str) -> None:
    hostile = "]]></text><script>alert(1)</script><!--" + name
    step = tell(run, [record("outcome", "d", server=server + hostile, target=hostile)]).steps[0]
    refused = Step(**{**_members(step), "verdict": "deny", "code": code + hostile})
    svg = picture(Story(run=run + hostile, steps=(step, refused)), {})
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "defs", "marker", "path", "rect", "line", "text"}
    assert "href" not in svg
    svg.encode("utf-8")


def _members(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__dataclass_fields__}


def test_text_that_turns_around_is_shown_as_it_stands() -> None:
    step = record("outcome", "d_1", target="a\u202eb\x00c", effect="read")
    assert "1. a\ufffdb\ufffdc" in texts(picture(tell("r_1", [step]), {}))
