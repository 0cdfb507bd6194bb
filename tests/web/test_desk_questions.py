"""Calls that wait, at the desk: who sees what they say, and whose answer counts once."""

import asyncio

import pytest

from gateway.domain.approvals import ApprovalId, ApprovalState, Span
from gateway.domain.document import Digest
from tests.admin.world import NOW
from tests.signin.house import HTTP
from tests.web.desk_site import desk_house

QUESTION = "/desk/approvals/a"
TOLD = 'to["eve@outside.example"]'


@pytest.fixture
async def house(tmp_path):
    async with desk_house(tmp_path) as house:
        yield house


def found(house, name="a"):
    return house.approvals.get(ApprovalId(name), now=NOW)


async def test_what_runs_out_first_comes_first(house):
    for name, left in (("late", 300), ("soon", 100), ("then", 200)):
        await house.ask(name, expires_at=NOW + left, fingerprint=Digest.of(name.encode()))
    _, page = await house.sits_down("ada")
    places = [page.body.index(f"/desk/approvals/{name}") for name in ("soon", "then", "late")]
    assert places == sorted(places)


async def test_many_questions_come_a_page_at_a_time_and_none_twice(house):
    for number in range(120):
        name = f"q{number:03}"
        await house.ask(name, expires_at=NOW + 100 + number, fingerprint=Digest.of(name.encode()))
    browser, page = await house.sits_down("ada")
    met = []
    while True:
        met += [link for link in page.links if link.startswith("/desk/approvals/q")]
        if "next" not in page.links:
            break
        page = await browser.follow(page, "next")
    assert met == [f"/desk/approvals/q{number:03}" for number in range(120)]


async def test_whoever_may_answer_sees_what_it_says_and_that_is_on_record(house):
    await house.ask()
    _, page = await house.sits_down("ada", QUESTION)
    assert page.ids["arguments"] == TOLD
    assert page.ids["evidence"] == "this address stands only in a mail from outside"
    assert house.methods == [("user:ada", "approvals.show", "read")]


async def test_an_auditor_sees_that_there_is_a_question_and_not_what_it_says(house):
    await house.ask()
    _, page = await house.sits_down("otto", QUESTION)
    assert page.status == 200
    assert "user:otto needs the role admin or approver" in page.ids["withheld"]
    assert "eve@outside.example" not in page.body
    assert page.forms == []
    assert house.methods == []


async def test_once_it_is_answered_the_page_says_so_and_no_more(house):
    await house.ask()
    browser, page = await house.sits_down("ada", QUESTION)
    page = await browser.submit(
        page.form("answer-question"), page, action="once", note="it is hers"
    )
    assert page.url == HTTP + QUESTION
    assert page.ids["answered"].startswith("allowed by user:ada")
    assert page.ids["note-said"] == "it is hers"
    assert "eve@outside.example" not in page.body
    assert found(house).span is Span.ONCE


@pytest.mark.parametrize(
    ("action", "state", "span"),
    [
        ("once", ApprovalState.ALLOWED, Span.ONCE),
        ("run", ApprovalState.ALLOWED, Span.RUN),
        ("deny", ApprovalState.DENIED, Span.ONCE),
        ("deny_run", ApprovalState.DENIED, Span.RUN),
    ],
)
async def test_every_answer_means_what_its_button_says(house, action, state, span):
    await house.ask()
    browser, page = await house.sits_down("ada", QUESTION)
    await browser.submit(page.form("answer-question"), page, action=action, note="so")
    assert (found(house).state, found(house).span) == (state, span)


async def test_a_no_says_why(house):
    await house.ask()
    browser, page = await house.sits_down("ada", QUESTION)
    page = await browser.submit(page.form("answer-question"), page, action="deny", note=" ")
    assert page.status == 400
    assert found(house).state is ApprovalState.WAITING


async def test_the_first_button_says_no(house):
    await house.ask()
    _, page = await house.sits_down("ada", QUESTION)
    assert page.form("answer-question").buttons[0] == ("action", "deny")


async def test_a_form_is_for_its_own_question(house):
    await house.ask()
    await house.ask("b", fingerprint=Digest.of(b"b"))
    browser, page = await house.sits_down("ada", QUESTION)
    form = page.form("answer-question")
    form.action = "/desk/approvals/b"
    page = await browser.submit(form, page, action="once")
    assert (page.status, found(house, "b").state) == (403, ApprovalState.WAITING)


async def test_a_form_of_another_person_is_worth_nothing(house):
    await house.ask()
    _, page = await house.sits_down("ada", QUESTION)
    other = await house.signed_in("root")
    refused = await other.submit(page.form("answer-question"), page, action="once")
    assert (refused.status, found(house).state) == (403, ApprovalState.WAITING)


async def test_of_two_answers_at_once_one_counts(house):
    await house.ask()
    ada, page = await house.sits_down("ada", QUESTION)
    root, other = await house.sits_down("root", QUESTION)
    answers = await asyncio.gather(
        ada.submit(page.form("answer-question"), page, action="once"),
        root.submit(other.form("answer-question"), other, action="deny", note="no"),
    )
    assert sorted(page.status for page in answers) == [200, 409]
    assert found(house).by in {"user:ada", "user:root"}
    (late,) = [page for page in answers if page.status == 409]
    assert "this question waits no more" in late.ids["problem"]


async def test_what_others_wrote_is_text_and_all_of_it_is_to_be_seen(house):
    nasty = "<script>alert(1)</script>\u202e\u200b\"'&\U000e0068\U000e0069"
    await house.ask(
        client_name=nasty,
        subject=nasty,
        carried=('{"to":["' + "<script>\u202e\u200b" + '"]}').encode(),
        evidence=(nasty,),
    )
    _, page = await house.sits_down("ada", QUESTION)
    assert page.body.count("<script") == 1  # ours
    for mark in ("\\u{202e}", "\\u{200b}", "\\tags{hi}"):
        assert mark in page.text
    for hidden in ("\u202e", "\u200b", "\U000e0068"):
        assert hidden not in page.body


async def test_a_sub_with_bars_is_shown_whole(house):
    await house.ask(subject="auth0|emma", principal="https://idp.example|auth0|emma|c_1")
    for path in (QUESTION, "/desk/approvals"):
        _, page = await house.sits_down("ada", path)
        assert "auth0|emma" in page.body
