"""Every room of the desk, for every role: what the menu offers is there, and what is done is announced."""

import re
import sqlite3
from contextlib import closing

import pytest

from gateway.domain.identity import ClientKind
from gateway.domain.tools import Profile
from gateway.storage.database import DATABASE
from tests.admin.world import sighting
from tests.signin.house import HTTP
from tests.storage.logged import FROM_CRM, TO_OTHERS, append, made, refused, write
from tests.web.desk_site import PEOPLE, desk_house

DESK = f"{HTTP}/desk"
EVERYBODY = (
    "",
    "/approvals",
    "/approvals/standing",
    "/pins",
    "/pins/all",
    "/runs",
    "/policy",
    "/policy/check",
    "/servers",
)
OF_THE_LOG = (
    "/record",
    "/record/ask",
    "/record/exports",
    "/people",
    "/people/clients",
    "/alerts",
    "/policy/replay",
)
ADMINS_ONLY = ("users.disable", "users.enable", "users.add", "users.link", "clients.add", "sessions.end", "grants.revoke", "clients.remove", "servers.add", "servers.remove", "alerts.test")  # fmt: skip


@pytest.fixture
async def house(tmp_path):
    events = [
        *made("1", principal="user:emma", run="r_new", sources=FROM_CRM, destinations=TO_OTHERS),
        *refused("2", principal="user:noah"),
    ]
    await write(tmp_path, events)
    async with desk_house(tmp_path) as house:
        yield house


@pytest.mark.parametrize("name", ["ada", "otto", "root"])
async def test_what_the_menu_offers_is_there(house, name):
    browser, page = await house.sits_down(name, "/desk")
    rooms = [link for link in page.links if re.fullmatch(r"/desk(/[a-z]+)?", link)]
    assert {"/desk", "/desk/approvals", "/desk/pins"} <= set(rooms)
    for room in rooms:
        assert (await browser.get(HTTP + room)).status == 200


@pytest.mark.parametrize("name", ["ada", "otto", "root"])
async def test_a_room_is_for_whom_its_use_case_is_for(house, name):
    browser, _ = await house.sits_down(name)
    answered = {path: await browser.get(f"{HTTP}/desk{path}") for path in (*EVERYBODY, *OF_THE_LOG)}
    # That a replay is offered is no look at anything.
    for_all = {*EVERYBODY, "/policy/replay"}
    assert {path: page.status for path, page in answered.items()} == {
        path: 200 if name != "ada" or path in for_all else 403 for path in answered
    }


async def test_now_says_what_waits_and_what_was_refused(house):
    await house.ask()
    _, page = await house.sits_down("otto", "/desk")
    assert (page.ids["asked"], page.ids["ill"]) == ("1", "0")
    assert page.ids["digest"] == "sha256:0123"
    assert "rule_a" in page.text
    assert 'class="spark"' in page.body
    assert [method for _, method, code in house.methods if code == "read"] == ["audit.ask"]


async def test_an_approver_sees_now_without_the_record(house):
    _, page = await house.sits_down("ada", "/desk")
    assert "rule_a" not in page.text
    assert [code for _, _, code in house.methods] == []


async def test_a_runs_story_and_its_picture_are_told_and_on_record(house):
    browser, page = await house.sits_down("otto", "/desk/runs/r_new")
    assert "mail/send" in page.text
    page = await browser.follow(page, "picture")
    assert "svg" in page.elements
    assert "style" not in page.elements
    assert [method for _, method, _ in house.methods] == ["runs.show", "runs.picture"]


def act(name, /, **fields):
    query = "&".join(f"{field}={told}" for field, told in fields.items())
    return f"{DESK}/do/{name}?{query}"


async def test_what_is_done_is_announced_first_and_then_done_once(house):
    browser = await house.signed_in("root")
    ada = house.stores.users.by_subject(HTTP, "ada")
    page = await browser.get(act("users.disable", user=ada.id))
    assert page.title == "Disable this person? · Douane"
    assert not house.stores.users.find(ada.id).disabled
    page = await browser.submit(page.form("act"), page, action="do")
    assert page.url == f"{DESK}/people"
    assert house.stores.users.find(ada.id).disabled
    assert ("user:root", "users.disable", "disabled") in house.methods


async def test_what_is_to_be_done_names_to_whom_before_any_id(house):
    browser = await house.signed_in("root")
    ada = house.stores.users.by_subject(HTTP, "ada")
    page = await browser.get(act("users.disable", user=ada.id))
    assert page.ids["whom"].startswith("Ada (ada)")
    assert page.ids["whom"].endswith(ada.id)
    house.client(id="c_9", name="nightly", kind=ClientKind.REGISTERED)
    page = await browser.get(act("clients.remove", client="c_9"))
    assert page.ids["whom"].startswith("nightly")
    before = house.methods
    page = await (await house.signed_in("ada")).get(act("users.disable", user=ada.id))
    assert ("whom" in page.ids, house.methods == before) == (False, True)


async def test_a_client_that_waits_is_called_by_its_name(house):
    house.client(
        id="c_8", name="nightly", kind=ClientKind.REGISTERED, grants=("client_credentials",)
    )
    await house.ask("q8", subject="c_8")
    browser = await house.signed_in("ada")
    for path in ("", "/approvals", "/approvals/q8"):
        page = await browser.get(DESK + path)
        assert ("nightly" in page.text, "c_8" in page.text) == (True, False)


async def test_the_first_button_goes_back_and_does_nothing(house):
    browser = await house.signed_in("root")
    ada = house.stores.users.by_subject(HTTP, "ada")
    page = await browser.get(act("users.disable", user=ada.id))
    assert page.form("act").buttons[0] == ("action", "back")
    page = await browser.submit(page.form("act"), page, action="back")
    assert page.url == f"{DESK}/people"
    assert not house.stores.users.find(ada.id).disabled


async def test_a_form_does_it_to_whom_it_named_and_nobody_else(house):
    browser = await house.signed_in("root")
    ada, otto = (house.stores.users.by_subject(HTTP, name) for name in ("ada", "otto"))
    page = await browser.get(act("users.disable", user=ada.id))
    page = await browser.submit(page.form("act"), page, action="do", user=otto.id)
    assert page.status == 403
    assert not house.stores.users.find(otto.id).disabled


async def test_what_opens_something_waits_for_a_sign_in_of_late_and_what_ends_does_not(house):
    browser = await house.signed_in("root")
    ada = house.stores.users.by_subject(HTTP, "ada")
    house.clock.now += 1000
    page = await browser.get(act("users.disable", user=ada.id))
    await browser.submit(page.form("act"), page, action="do")
    assert house.stores.users.find(ada.id).disabled
    page = await browser.get(act("users.enable", user=ada.id))
    assert "do" not in page.ids
    page = await browser.submit(page.form("act"), page, action="do")
    assert page.status == 409
    assert house.stores.users.find(ada.id).disabled


async def test_a_run_that_has_seen_nothing_is_given_after_a_sign_in_of_late(house):
    browser = await house.signed_in("ada")
    house.clock.now += 1000
    page = await browser.get(act("runs.end", run="r_new"))
    assert "do" not in page.ids
    page = await browser.submit(page.form("act"), page, action="do", note="it may go on")
    assert (page.status, "Sign in again" in page.text) == (409, True)
    assert "runs.end" not in [method for _, method, _ in house.methods]


@pytest.mark.parametrize("name", ADMINS_ONLY)
async def test_only_admins_do_what_is_theirs(house, name):
    root = house.stores.users.by_subject(HTTP, "root")
    for who in ("ada", "otto"):
        browser = await house.signed_in(who)
        page = await browser.get(act(name, user=root.id, name="x", grant="x", client="x"))
        typed = {
            "name": "x",
            "url": "https://x.example/mcp",
            "groups": "users",
            "resources": "/mcp/x",
            "scopes": "tools:call",
        }
        page = await browser.submit(page.form("act"), page, action="do", **typed)
        assert (page.status, "needs the role admin" in page.text) == (403, True)


async def test_who_cannot_press_a_button_has_none(house):
    _, page = await house.sits_down("otto", "/desk/policy")
    assert "stop-all" not in page.links
    root = house.stores.users.by_subject(HTTP, "root")
    page = await (await house.signed_in("otto")).get(f"{DESK}/people/one?user={root.id}")
    assert page.status == 200
    assert "/desk/do/" not in page.body


async def test_everything_is_stopped_with_a_reason_and_every_first_page_says_so(house):
    browser = await house.signed_in("ada")
    page = await browser.get(act("policy.stop"))
    bare = await browser.submit(page.form("act"), page, action="do", note=" ")
    assert bare.status == 400
    page = await browser.submit(page.form("act"), page, action="do", note="something is wrong")
    assert "something is wrong" in page.ids["stopped"]
    page = await browser.get(DESK)
    assert "something is wrong" in page.ids["stopped"]
    room = await browser.get(f"{DESK}/policy")
    seen = await browser.follow(room, "go")
    assert "ada: something is wrong" in seen.ids["whom"]
    unseen = await browser.get(act("policy.go"))
    page = await browser.get(act("policy.stop"))
    await browser.submit(page.form("act"), page, action="do", note="we are being robbed")
    for old in (seen, unseen):
        late = await browser.submit(old.form("act"), old, action="do", note="it was nothing")
        assert (late.status, "stopped again since you looked" in late.text) == (409, True)
    room = await browser.get(f"{DESK}/policy")
    assert "we are being robbed" in room.ids["stopped"]
    page = await browser.follow(room, "go")
    page = await browser.submit(page.form("act"), page, action="do", note="it was nothing")
    assert "stopped" not in page.ids


async def test_nothing_else_can_be_done(house):
    browser = await house.signed_in("root")
    for name in ("keys.rotate", "audit.prune", "users.remove", "nothing"):
        assert (await browser.get(act(name))).status == 404


async def test_somebody_is_added_and_their_link_is_shown_once(house):
    browser = await house.signed_in("root")
    page = await browser.get(act("users.add"))
    page = await browser.submit(
        page.form("act"), page, action="do", name="nina", groups="users, security"
    )
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")
    assert "/setup?link=" in page.ids["setup-url"]
    nina = house.stores.users.by_subject(HTTP, "nina")
    assert nina.groups == {"users", "security"}
    assert ("user:root", "users.add", "added") in house.methods
    assert "/setup" not in (await browser.get(f"{DESK}/people/one?user={nina.id}")).body


async def test_a_client_is_registered_and_its_secret_is_shown_once(house):
    browser = await house.signed_in("root")
    page = await browser.get(act("clients.add"))
    said = {"name": "agent", "resources": "/mcp/mail", "scopes": "tools:list, tools:call"}
    page = await browser.submit(page.form("act"), page, action="do", **said)
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")
    secret = page.ids["client-secret"]
    assert len(secret) == 43
    assert secret not in (await browser.get(f"{DESK}/people/clients")).body


async def test_the_record_is_computed_again_and_said_to_be_what_it_was(house):
    browser = await house.signed_in("otto")
    page = await browser.get(act("audit.verify"))
    page = await browser.submit(page.form("act"), page, action="do")
    assert re.fullmatch(
        r"Intact: \d+ records, up to the checkpoint of \d+; took \d+\.\d s\.", page.ids["ok"]
    )
    assert "link" not in page.ids["kept"]
    assert page.links["back"] == "/desk"
    page = await browser.get(DESK)
    assert page.ids["verified"].startswith("Intact when user:otto had it computed again, ")


async def test_now_says_whether_the_record_is_intact_and_how_to_know(house):
    _, page = await house.sits_down("otto", "/desk")
    assert page.ids["verified"] == "Not computed again yet by anybody at the desk."
    assert page.links["verify"] == "/desk/do/audit.verify"
    _, page = await house.sits_down("ada", "/desk")
    assert "verified" not in page.ids


async def test_a_record_that_is_not_intact_is_said_to_be_so_wherever_it_is_said(house):
    browser = await house.signed_in("otto")
    with closing(sqlite3.connect(house.store.data_dir / DATABASE)) as connection:
        connection.execute("DROP TRIGGER audit_is_never_updated")
        connection.execute("UPDATE audit SET body = replace(body, 'deny', 'give')")
        connection.commit()
    page = await browser.get(act("audit.verify"))
    page = await browser.submit(page.form("act"), page, action="do")
    assert page.title == "Not intact · Douane"
    assert "The log is altered from record 2 on" in page.ids["wrong"]
    page = await browser.get(DESK)
    assert page.ids["verified"].startswith("Not intact when user:otto had it computed again")


async def test_what_is_shown_after_an_act_says_what_it_is(house):
    browser = await house.signed_in("root")
    said = {"name": "agent", "resources": "/mcp/mail", "scopes": "tools:list"}
    page = await browser.get(act("clients.add"))
    page = await browser.submit(page.form("act"), page, action="do", **said)
    assert ("secret stands here this once" in page.text, "link" in page.text) == (True, False)


@pytest.mark.parametrize("path", ["/desk", "/desk/servers"])
async def test_a_server_whose_tool_changed_is_not_well(house, path):
    browser, page = await house.sits_down("ada", path)
    assert "well" in page.text
    await house.store.pins.observe([sighting(), sighting(profile=Profile.LEGACY)])
    for pin in house.store.pins.all():
        digest = str(pin.observed.digest)
        await house.store.pins.approve(
            pin.target, pin.profile, expected=digest, by="user:ada", note=""
        )
    assert "well" in (await browser.get(HTTP + path)).text
    changed = [sighting(text="Else."), sighting(text="Else.", profile=Profile.LEGACY)]
    await house.store.pins.observe(changed)
    page = await browser.get(HTTP + path)
    assert "1 tool changed" in page.text
    assert "well" not in page.text
    assert "/desk/pins?server=mail" in page.links


async def test_each_count_of_refusals_says_what_became_of_the_calls(house):
    held = refused("7", verdict="ask", code="approval_required")
    await append(house.store, held, begin=70)
    _, page = await house.sits_down("otto", "/desk")
    rows = re.findall(r"rule_a.*?<strong>(\d+)</strong>", page.body, re.DOTALL)
    assert len(rows) == 2
    assert len(re.findall(r"rule_a</code></a> <span class=\"stamp (?:ask|deny)", page.body)) == 2


async def test_a_lock_file_is_taken_over_and_each_entry_says_what_became_of_it(house):
    browser = await house.signed_in("ada")
    lock = (await browser.get(f"{DESK}/pins/lock")).body
    page = await browser.get(act("pins.import"))
    done = await browser.submit(page.form("act"), page, action="do", lock=lock)
    assert done.status == 200
    assert done.ids["none"] == "There was nothing in it."
    forged = await browser.submit(
        page.form("act"), page, action="do", lock=lock.replace('"pins"', '"pinz"')
    )
    assert forged.status in {400, 409}
    broken = await browser.submit(page.form("act"), page, action="do", lock="{")
    assert (broken.status, "not JSON" in broken.text) == (400, True)


async def test_a_runs_label_is_lowered_only_as_it_was_seen(house):
    browser = await house.signed_in("ada")
    seen = {"run": "r_x", "seen_integrity": "untrusted", "seen_confidentiality": "private"}
    page = await browser.get(act("runs.relabel", **seen))
    said = {"integrity": "trusted", "confidentiality": "private", "note": "I read it"}
    other = await browser.submit(
        page.form("act"), page, action="do", **said, seen_confidentiality="secret"
    )
    assert other.status == 403
    gone = await browser.submit(page.form("act"), page, action="do", **said)
    assert gone.status == 404
    page = await browser.follow(await browser.get(f"{DESK}/runs/r_new"), "relabel")
    other = await browser.submit(page.form("act"), page, action="do", **said, look="0.second")
    assert other.status == 403
    done = await browser.submit(page.form("act"), page, action="do", **said)
    assert (done.status, done.url) == (200, f"{DESK}/runs")


async def test_a_label_is_lowered_by_whoever_looked_at_its_run_alone(house):
    """A page that was opened without a look, or with another one, lowers nothing."""
    browser = await house.signed_in("ada")
    seen = {"run": "r_new", "seen_integrity": "untrusted", "seen_confidentiality": "private"}
    said = {"integrity": "trusted", "confidentiality": "private", "note": "I read it"}
    for look in ({}, {"look": "0.second"}):
        page = await browser.get(act("runs.relabel", **seen, **look))
        late = await browser.submit(page.form("act"), page, action="do", **said)
        assert (late.status, "since you looked at it" in late.text) == (409, True)


async def test_a_replay_says_what_would_be_otherwise(house):
    browser, page = await house.sits_down("otto", "/desk/policy/replay")
    page = await browser.submit(page.form("replay"), page, since="7d")
    assert page.status == 200
    assert "decisions" in page.ids["sum"]
    page = await browser.submit(page.form("replay"), page, since="90d")
    assert page.status == 400


async def test_a_persons_page_is_about_who_is_there(house):
    browser = await house.signed_in("root")
    assert (await browser.get(f"{DESK}/people/one?user=nobody")).status == 404
    uma = house.stores.users.by_subject(HTTP, "uma")
    page = await browser.get(f"{DESK}/people/one?user={uma.id}")
    assert "uma" in page.text
    assert set(PEOPLE) == {"uma", "ada", "otto", "root"}


async def test_the_policy_room_says_which_rules_refused_and_which_never_did(house):
    _, page = await house.sits_down("otto", "/desk/policy")
    assert page.ids["in-force"] == "They are what is in force."
    assert re.search(r"flow\.rego rule_a rule_b", page.ids["codes"])
    _, page = await house.sits_down("ada", "/desk/policy")
    assert "rule_b" in page.ids["codes"]
    assert "fired" not in page.ids
