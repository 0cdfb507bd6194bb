"""A record at the desk: why it was decided so, at once; and its policy asked again, by a button."""

from typing import Any

import pytest

from tests.signin.house import HTTP
from tests.storage.logged import FROM_CRM, TO_OTHERS, made, refused, write
from tests.web.desk_site import desk_house

RECORD = f"{HTTP}/desk/record"
SENT: Any = {"sources": FROM_CRM, "destinations": TO_OTHERS}
DRIFT: Any = {
    "method": "tools/call",
    "code": "pin_drift",
    "reasons": [{"code": "pin_drift", "message": "mail/tool/send"}],
    "question": {"answer": {"verdict": "allow", "reasons": []}},
}
SAID_NO: Any = {
    "method": "tools/call",
    "target": "pay",
    "reasons": [
        {"code": "person_said_no", "message": "a person was asked and said no"},
        {"code": "rule_a", "message": "held"},
    ],
    "question": {"answer": {"verdict": "ask", "reasons": []}},
}


@pytest.fixture
async def house(tmp_path):
    events = [
        *made("1", principal="user:emma", server="mail", target="send", **SENT),
        *refused("2", principal="user:noah", policy_digest="sha256:0123"),
        *refused("3", principal="user:noah", **DRIFT),
        *refused("4", principal="user:noah", policy_digest="sha256:0123", **SAID_NO),
    ]
    await write(tmp_path, events)
    async with desk_house(tmp_path) as house:
        yield house


HELD = [*(f"help.rego:{number}: helps" for number in range(20)), "flow.rego:7: flow_deny"]
ANSWER = {"verdict": "deny", "reasons": ["rule_a"]}
AGAIN = {
    "finding": "same",
    "policy_digest": "sha256:0123",
    "before": ANSWER,
    "after": ANSWER,
    "lacking": [],
    "places": [{"file": "flow.rego", "line": 7, "rule": "flow_deny", "code": "rule_a"}],
    "rules": HELD,
}


@pytest.fixture
def asked(house):
    """Return the decisions that were put to their policy again."""
    found: list[str] = []
    desk = house.admin._reads["policy.explain"].__self__

    def explained(record):
        found.append(record["decision_id"])
        return {**AGAIN, "decision_id": record["decision_id"]}

    desk._explained = explained
    return found


def id_of(house, **wanted):
    """Return the first record that says so."""
    rows = house._written()
    return next(
        row["id"] for row in rows if all(row.get(name) == told for name, told in wanted.items())
    )


async def test_a_refusals_page_names_its_rule_and_asks_nothing_again(house, asked):
    _, page = await house.sits_down("otto", f"/desk/record/{id_of(house, code='denied')}")
    assert page.ids["rule"] == "Rule: flow.rego, line 7, deny"
    assert "/desk/policy#file-flow.rego" in page.links
    assert "private data would leave" in page.text
    assert "counted" not in page.ids
    assert asked == []


async def test_a_policy_is_asked_again_by_a_button_and_the_rule_comes_first(house, asked):
    id_ = id_of(house, code="denied")
    browser, page = await house.sits_down("otto", f"/desk/record/{id_}")
    page = await browser.submit(page.form("explain"), page)
    assert (page.status, asked) == (200, [f"d_{'2':0>30}"])
    assert page.ids["rule"] == "Rule: flow.rego, line 7, flow_deny"
    assert page.ids["finding"] == "Asked again, the policy that decided says the same."
    assert page.ids["all-rules"].startswith("All 21 rules that held on the way")
    page = await browser.get(f"{RECORD}/{id_}/explain")
    assert page.url == f"{RECORD}/{id_}"


async def test_a_policy_is_asked_again_only_for_the_record_that_was_shown(house, asked):
    browser, page = await house.sits_down("otto", f"/desk/record/{id_of(house, code='denied')}")
    page = await browser.submit(page.form("explain"), page, decision="d_another")
    assert (page.status, asked) == (403, [])


async def test_where_a_pin_counted_it_is_said_with_the_way_to_what_changed(house):
    _, page = await house.sits_down("otto", f"/desk/record/{id_of(house, code='pin_drift')}")
    assert page.ids["counted"].startswith("What counted: The pin: the server shows another")
    assert page.ids["definition"] == "What changed"
    assert page.links["definition"] == "/desk/pins/one?server=mail&kind=tool&name=send"
    assert "Policy's own word was allow; it was not what counted." in page.ids["opinion"]


async def test_where_a_person_said_no_that_is_what_counted_and_no_rule(house):
    _, page = await house.sits_down("otto", f"/desk/record/{id_of(house, target='pay')}")
    assert page.ids["counted"] == "What counted: A person's answer: they were asked, and said no."
    assert "Policy's own word was ask; it was not what counted." in page.ids["opinion"]
    assert "rule" not in page.ids


async def test_of_what_was_let_through_no_rule_is_named(house):
    row = id_of(house, kind="outcome", verdict="allow", target="send")
    _, page = await house.sits_down("otto", f"/desk/record/{row}")
    assert {"rule", "counted"} & page.ids.keys() == set()
    assert "explain" in page.ids


@pytest.mark.parametrize("name", ["uma", "ada"])
async def test_nobody_else_has_a_policy_asked_again(house, asked, name):
    browser = await house.signed_in(name)
    page = await browser.get(f"{RECORD}/{id_of(house, code='denied')}")
    assert page.status in {403, 404}
    assert asked == []
