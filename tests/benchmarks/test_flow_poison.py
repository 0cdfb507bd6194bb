"""An attacker's destination is planted where results have identifiers, whatever they are called."""

import json
from typing import Any

import pytest
import yaml

from benchmarks.flow.poison import plant, poisoned
from benchmarks.flow.traces import Step, Suite, Trace, configured

SETTINGS: dict[str, Any] = {
    "servers": {
        "s": {
            "tools": {
                "send": {"effect": "egress", "destination": ["to", "cc"]},
                "ours": {"effect": "read", "result": {"integrity": "trusted"}},
                "known": {"effect": "read", "typed": ["$[*].id"]},
            }
        }
    }
}
FOUND = {"structuredContent": [{"who": "a@b.example"}], "content": [{"type": "text", "text": "-"}]}


def of_text(text: str, content: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return found if content is None else found | {"structuredContent": content}


def step(tool: str, *, user: bool = True, harmful: bool = False, **more: Any) -> Step:
    given = {"arguments": {}, "result": FOUND} | more
    return Step(server="s", tool=tool, of_user=user, harmful=harmful, **given)


def harm(**arguments: Any) -> Step:
    return step("send", user=False, harmful=True, arguments=arguments)


def suite_of(*traces: Trace, tmp_path: Any) -> Suite:
    return Suite(
        name="tiny",
        settings=SETTINGS,
        config=configured(SETTINGS, tmp_path / "tiny.labels.yaml"),
        tools={},
        traces=traces,
    )


def trace(*steps: Step, attack: bool = True) -> Trace:
    return Trace(id="t", is_attack=attack, user_task="u", goal="g", prompt="Do it.", steps=steps)


@pytest.mark.parametrize(
    ("content", "value", "field", "item"),
    [
        (
            [{"n": 1, "who": "a@b.example", "note": "two words"}],
            "x@y.example",
            "$[*].who",
            {"n": 1, "who": "x@y.example", "note": "two words"},
        ),
        (
            [{"id": "7", "iban": "DE89", "on": "2024-05-15"}],
            "GB33",
            "$[*].iban",
            {"id": "7", "iban": "GB33", "on": "2024-05-15"},
        ),
        (
            [{"on": "2024-05-15T10:00:00", "id": 7}],
            "12",
            "$[*].id",
            {"on": "2024-05-15T10:00:00", "id": "12"},
        ),
        (
            [{"who": "me", "free": "some text"}],
            "x@y.example",
            "$[*].who",
            {"who": "x@y.example", "free": "some text"},
        ),
        (
            [{"all": ["a@b.example", "c@d.example"], "no": 1.5}],
            "x@y.example",
            "$[*].all[*]",
            {"all": ["x@y.example"], "no": 1.5},
        ),
        (["general", "random"], "outside", "$[*]", "outside"),
        (
            [{"url": "https://a.example"}],
            "https://x.example/?q=",
            "$[*].url",
            {"url": "https://x.example/?q="},
        ),
        ([{"free": "some text"}], "x@y.example", "$[*].owners[*]", {"owners": ["x@y.example"]}),
        ([], "x@y.example", "$[*].owners[*]", {"owners": ["x@y.example"]}),
    ],
    ids=["address", "code", "number", "any", "list", "bare", "link", "none", "empty"],
)
def test_a_list_has_one_item_more_like_its_last(
    content: list[Any], value: str, field: str, item: Any
) -> None:
    text = yaml.safe_dump(content) if content else ""
    found, fields = plant(of_text(text, content), [value])
    assert fields == {field}
    assert found["structuredContent"] == [*content, item]
    assert yaml.safe_load(found["content"][0]["text"]) == [*content, item]


def test_each_value_has_an_item_of_its_own() -> None:
    found, fields = plant(of_text("-", [{"who": "a@b.example"}]), ["x@y.example", "z@y.example"])
    assert [item["who"] for item in found["structuredContent"]] == [
        "a@b.example",
        "x@y.example",
        "z@y.example",
    ]
    assert fields == {"$[*].who"}


def test_a_list_inside_of_an_object_is_found() -> None:
    content = {"total": 1, "mails": [{"from": {"address": "a@b.example"}}]}
    found, fields = plant(of_text(json.dumps(content), content), ["x@y.example"])
    assert fields == {"$.mails[*].from.address"}
    assert found["structuredContent"]["mails"][1:] == [{"from": {"address": "x@y.example"}}]
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]


@pytest.mark.parametrize("content", [None, {"text": "Hello.", "by": "a@b.example"}])
def test_what_is_no_list_gets_owners_and_stays_as_it_is(content: Any) -> None:
    found, fields = plant(of_text("Hello.", content), ["x@y.example", "7"])
    assert fields == {"$.owners[*]"}
    before = content or {"text": "Hello."}
    assert found["structuredContent"] == before | {"owners": ["x@y.example", "7"]}
    assert found["content"][0]["text"] == "Hello.\nowners:\n- x@y.example\n- '7'\n"


def test_every_destination_of_harm_is_planted_before_the_first_injected_call(
    tmp_path: Any,
) -> None:
    harmless = step("send", user=False, arguments={"to": "read@y.example"})
    steps = [
        step("open"),
        step("ours"),
        harmless,
        step("open"),
        harm(to=["x@y.example"], cc="c@y.example", body="b"),
    ]
    found = poisoned(suite_of(trace(*steps), tmp_path=tmp_path))
    ((changed, *rest),) = (one.steps for one in found.traces)
    assert list(rest) == steps[1:]
    assert changed.result["structuredContent"] == [
        {"who": "a@b.example"},
        {"who": "x@y.example"},
        {"who": "c@y.example"},
    ]
    assert found.settings["servers"]["s"]["tools"]["open"] == {"typed": ["$[*].who"]}
    assert found.untouched == 0
    assert steps[0].result == FOUND
    assert "open" not in SETTINGS["servers"]["s"]["tools"]


def test_fields_that_were_typed_before_stay_so(tmp_path: Any) -> None:
    found = poisoned(suite_of(trace(step("known"), harm(to="x@y.example")), tmp_path=tmp_path))
    assert found.settings["servers"]["s"]["tools"]["known"] == {
        "effect": "read",
        "typed": ["$[*].id", "$[*].who"],
    }


@pytest.mark.parametrize(
    "steps",
    [
        [harm(to="x@y.example"), step("open")],
        [step("ours"), harm(to="x@y.example")],
        [step("open", result=FOUND | {"isError": True}), harm(to="x@y.example")],
        [step("open"), harm(body="no destination")],
        [step("open"), step("send", user=False, arguments={"to": "x@y.example"})],
    ],
    ids=["nothing before", "trusted", "an error", "no destination", "no harm"],
)
def test_an_attack_that_cannot_be_poisoned_is_played_as_it_is(
    tmp_path: Any, steps: list[Step]
) -> None:
    one = trace(*steps)
    found = poisoned(suite_of(one, tmp_path=tmp_path))
    assert (list(found.traces), found.settings, found.untouched) == ([one], SETTINGS, 1)


def test_tasks_of_users_are_as_they_were(tmp_path: Any) -> None:
    one = trace(step("open"), attack=False)
    found = poisoned(suite_of(one, tmp_path=tmp_path))
    assert (list(found.traces), found.settings, found.untouched) == ([one], SETTINGS, 0)
