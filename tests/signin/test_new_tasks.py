"""A person's word that a new task begins: nothing else on the way to a grant ends a run."""

from typing import Any

import pytest

from gateway.domain.flow import Run, RunHint, Source
from gateway.domain.identity import AuthMethod, Client, ClientKind, Principal, acting
from gateway.domain.labels import BOTTOM, Confidentiality, Integrity, Label
from gateway.errors import AuditUnavailable
from gateway.storage.runs import RunLimits
from tests.signin.browser import Browser, Page
from tests.signin.house import House

CONFIDENTIAL: dict[str, Any] = {"auth_methods": frozenset({AuthMethod.BASIC}), "secret_hash": "x"}
TAINTED = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)
TICK = {"new_task": "yes"}


def principal(house: House, client: Client, subject: str = "alice") -> Principal:
    return Principal(
        issuer=house.url,
        subject=subject,
        client_id=client.id,
        client_name=client.name,
        groups=frozenset(),
        scopes=frozenset(),
        token_id="t",
        expires_at=2e9,
        people=0,
        program=client.name if client.kind is ClientKind.DYNAMIC else "",
    )


async def live(house: House, client: Client, subject: str = "alice") -> Run:
    return await house.runs.of(principal(house, client, subject), RunHint())


async def reads(house: House, client: Client, subject: str = "alice") -> Run:
    run = await live(house, client, subject)
    source = Source(server="web", tool="page", record="r7", label=TAINTED)
    return await house.runs.raise_label(run.id, TAINTED, source)


async def asked(house: House, browser: Browser, **changes: str) -> Page:
    page = await browser.get(house.authorize(**changes))
    assert page.shows("consent"), page.text
    return page


async def answer(browser: Browser, page: Page, **fields: str) -> Page:
    return await browser.submit(page.form("consent"), page, **{"action": "approve", **fields})


async def test_a_person_says_that_a_new_task_begins_and_the_run_ends_on_record(
    house: House,
) -> None:
    client = house.client()
    await house.person()
    run = await reads(house, client)
    others = [
        await reads(house, client, "noah"),
        await reads(house, house.client(id="dcr_2", name="B")),
    ]
    browser = await house.signed_in()
    page = await asked(house, browser)
    assert page.ids["has-read"].startswith(
        "So far it has read untrusted, private data for you from web."
    )
    assert "new_task" not in page.form("consent").fields  # not ticked
    page = await answer(browser, page, **TICK)
    assert "code=" in page.leaves_for
    after = await live(house, client)
    assert (after.id != run.id, after.label) == (True, BOTTOM)
    for other in others:
        state = house.runs.find(other.id)
        assert state is not None
        assert state.live
    assert house.told[1:] == [
        ("auth", "allow", "consent_given", "alice"),
        ("run", "allow", "new_task", "alice"),
        ("token", "allow", "code_issued", "alice"),
    ]
    (record,) = (one.fields for one in house.log.records if one.kind == "run")
    assert (record["run"], record["label_before"]) == (run.id, TAINTED.words)
    assert (record["client"], record["endpoint"]) == (client.id, "/mcp/mail")


@pytest.mark.parametrize(
    "fields",
    [{}, {"action": "deny"}, {"action": "deny", **TICK}],
    ids=["a yes alone", "a no", "a no with a tick"],
)
async def test_without_a_yes_to_that_the_run_goes_on(house: House, fields: dict[str, str]) -> None:
    client = house.client()
    await house.person()
    run = await reads(house, client)
    browser = await house.signed_in()
    await answer(browser, await asked(house, browser), **fields)
    assert await live(house, client) == run


@pytest.mark.parametrize("value", ["no", "", "true", "on", "YES"])
async def test_what_is_no_tick_of_ours_is_refused(house: House, value: str) -> None:
    client = house.client()
    await house.person()
    run = await reads(house, client)
    browser = await house.signed_in()
    page = await answer(browser, await asked(house, browser), new_task=value)
    assert page.status == 400
    assert await live(house, client) == run


@pytest.mark.parametrize(
    "changes",
    [TICK, {"prompt": "consent", **TICK}, {"prompt": "login new_task"}, {"state": "&new_task=yes"}],
)
async def test_no_client_says_that_a_new_task_begins(house: House, changes: dict[str, str]) -> None:
    client = house.client()
    await house.person()
    run = await reads(house, client)
    browser = house.browser()
    page = await house.enter(browser, await browser.get(house.authorize(**changes)))
    assert "new_task" not in page.form("consent").fields
    page.url += "&new_task=yes"
    await answer(browser, page)
    assert await live(house, client) == run


@pytest.mark.parametrize("confidential", [True, False], ids=["confidential", "public"])
async def test_a_remembered_yes_ends_no_run(house: House, *, confidential: bool) -> None:
    client = house.client(**(CONFIDENTIAL if confidential else {}))
    await house.person()
    browser = await house.signed_in()
    await reads(house, client)
    await answer(browser, await asked(house, browser), **TICK)
    run = await reads(house, client)
    told = len(house.told)
    for changes in ({}, {"scope": "tools:call"}, TICK):
        page = await browser.get(house.authorize(**changes))
        assert "code=" in page.leaves_for
    assert [code for _, _, code, _ in house.told[told:]] == ["code_issued"] * 3
    assert await live(house, client) == run


async def test_a_tick_counts_once_and_for_the_page_it_was_made_on(house: House) -> None:
    client = house.client()
    await house.person()
    browser = await house.signed_in()
    await reads(house, client)
    first = await asked(house, browser)
    second = await asked(house, browser)
    form = first.form("consent").fields
    page = await answer(browser, second, csrf=form["csrf"], **TICK)
    assert page.status == 403
    await answer(browser, first, **TICK)
    run = await reads(house, client)
    page = await answer(browser, first, **TICK)
    assert page.status >= 400
    assert await live(house, client) == run


async def test_nothing_is_offered_where_nothing_was_read(house: House) -> None:
    client = house.client()
    await house.person()
    browser = await house.signed_in()
    assert "has-read" not in (await asked(house, browser)).ids
    run = await live(house, client)
    page = await asked(house, browser)
    assert "has-read" not in page.ids
    await answer(browser, page, **TICK)
    assert await live(house, client) == run


async def test_an_operator_keeps_the_choice_to_themselves(tmp_path: Any) -> None:
    house = House(tmp_path, offers_new_tasks=False)
    client = house.client()
    await house.person()
    run = await reads(house, client)
    browser = await house.signed_in()
    page = await asked(house, browser)
    assert "has-read" not in page.ids
    await answer(browser, page, **TICK)
    assert await live(house, client) == run


async def test_where_all_clients_of_a_person_are_one_the_page_speaks_of_all(tmp_path: Any) -> None:
    house = House(tmp_path, runs=RunLimits(by_person=True))
    client = house.client()
    await house.person()
    await reads(house, house.client(id="dcr_2", name="B"))
    page = await asked(house, await house.signed_in())
    assert "forget what all your clients have read" in page.text
    assert page.ids["has-read"].startswith("So far all your clients together have read untrusted")
    assert (await live(house, client)).label == TAINTED


async def test_a_new_task_that_cannot_be_recorded_does_not_begin(house: House) -> None:
    client = house.client()
    await house.person()
    run = await reads(house, client)
    browser = await house.signed_in()
    page = await asked(house, browser)
    append = house.log.append

    async def fails(record: Any) -> Any:
        if record.kind == "run":
            raise AuditUnavailable("no")
        return await append(record)

    house.log.append = fails  # type: ignore[method-assign]
    page = await answer(browser, page, **TICK)
    assert page.status == 503
    assert await live(house, client) == run


async def test_a_device_that_is_let_in_joins_the_live_run(house: House) -> None:
    client = house.client(id="dcr_tv", grants=("urn:ietf:params:oauth:grant-type:device_code",))
    await house.person()
    house.device(client_id=client.id, endpoint="/mcp/mail", scopes=frozenset({"tools:call"}))
    run = await reads(house, client)
    browser = await house.signed_in()
    page = await browser.get(house.url + "/device?user_code=BCDF-GHJK")
    page = await browser.submit(page.form("device"), page, action="check")
    page = await browser.submit(page.form("device-question"), page, action="approve", **TICK)
    assert "signed in" in page.text
    assert await live(house, client) == run


@pytest.mark.parametrize("kind", ClientKind)
async def test_whose_run_it_is_is_said_alike_at_the_page_and_at_the_door(
    house: House, kind: ClientKind
) -> None:
    client = house.client(kind=kind)
    user = await house.person()
    assert acting(client, user) == principal(house, client).actor
