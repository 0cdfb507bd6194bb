"""A person says whether a call may go out, on a page that shows all of it."""

import threading
from dataclasses import replace

import orjson
import pytest
from starlette.routing import Router

from gateway.admin.approvals import ApprovalDesk
from gateway.admin.journal import Journal
from gateway.admin.people import person_of
from gateway.admin.person import How
from gateway.admin.standing import StandingDesk
from gateway.domain.approvals import ApprovalId, ApprovalRules, ApprovalState, Span
from gateway.domain.document import Digest
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.pins.visible import visible
from gateway.storage.claims import ProcessClaims
from gateway.web import approvals
from gateway.web.approvals import ApprovalPages
from gateway.web.cookies import BrowserCookies
from gateway.web.pages import Pages
from gateway.web.visits import Visits
from tests.admin.test_approval_desk import question
from tests.admin.world import Themselves, nobody_barred
from tests.signin.house import HTTPS, PASSWORD, House
from tests.storage.memory_people import MemoryApprovalStore, MemoryStandingAnswers

ROLES = {"users": "user", "security": "approver"}
APPROVE = f"{HTTPS}/approve/a"


class AskingHouse(House):
    """One where people are asked about calls."""

    def __init__(self, folder, *, url):
        super().__init__(folder, url=url)
        self.approvals = MemoryApprovalStore()
        self.lapsed = ""
        self.answers = MemoryStandingAnswers()
        self.policy = Themselves()


@pytest.fixture
async def house(tmp_path):
    house = AskingHouse(tmp_path, url=HTTPS)
    journal = Journal(house.log, clock=house.clock, new_id=house.new_id)
    desk = ApprovalDesk(
        house.approvals,
        journal,
        clients=house.stores.clients,
        sources=lambda _: (),
        issuer=HTTPS,
        clock=house.clock,
        lapsed=lambda _: house.lapsed,
        standing=StandingDesk(
            house.answers,
            house.approvals,
            journal,
            claims=ProcessClaims(clock=house.clock),
            rules=ApprovalRules,
            barred=nobody_barred,
            issuer=HTTPS,
            clock=house.clock,
        ),
        policy=house.policy,
    )
    cookies = BrowserCookies(
        house.names, lambda scope: scope["client"][0], random=house.random, session_s=3600
    )

    def person(user):
        return person_of(
            user,
            How.PAGE,
            issuer=HTTPS,
            roles_of=lambda groups: frozenset(ROLES[g] for g in groups),
        )

    pages = ApprovalPages(Visits(Pages(), cookies, origin=HTTPS, journal=house.journal, user_of=house.sessions.user_of), house.sign_in, desk,
                          person_of=person, desk_of=lambda user: "/desk" if user.subject == "ada" else "")  # fmt: skip
    house.app = Router([*house.app.routes, *pages.routes], redirect_slashes=False)
    await house.person()
    await house.person("bob", groups=frozenset({"users"}))
    await house.person("ada", groups=frozenset({"users", "security"}))
    yield house
    house.stores.close()


def asked(house, name="a", **changes):
    made = {
        "subject": "alice",
        "user_id": "id-of-alice",
        "principal": f"{HTTPS}|alice|c_1",
        "self_approval": True,
        "asked_at": house.clock(),
        "expires_at": house.clock() + 3600,
    }
    return house.approvals.file(question(name, **{**made, **changes}))


def state(house, name="a"):
    return house.approvals.get(ApprovalId(name), now=house.clock()).state


STANDS = {"may_stand": True, "places": (("$.to", "eve@outside.example"),)}


async def test_a_person_says_that_an_answer_stands(house):
    await asked(house, **STANDS)
    browser, page = await signed_in(house)
    assert "$.to: eve@outside.example" in page.text
    done = await browser.submit(page.form("approve-question"), page, action="standing")
    assert (done.status, done.title) == (200, "Allowed for good · Douane")
    (answer,) = house.answers.all()
    assert (answer.id, answer.by, answer.by_user_id) == ("a", "user:alice", "id-of-alice")
    assert house.approvals.get(ApprovalId("a"), now=house.clock()).span is Span.STANDING


async def test_where_no_answer_may_stand_the_page_offers_none(house):
    await asked(house)
    browser, page = await signed_in(house)
    assert "standing" not in page.ids
    done = await browser.submit(page.form("approve-question"), page, action="standing")
    assert done.status == 400
    assert (house.answers.all(), state(house)) == ([], ApprovalState.WAITING)


async def test_the_page_says_how_often_one_has_said_yes_to_this(house):
    for name in ("b", "c"):
        await asked(house, name, **STANDS, fingerprint=Digest.of(name.encode()))
        await house.approvals.answer(
            ApprovalId(name), allow=True, span=Span.ONCE, by="user:alice", by_user_id="id-of-alice",
            note="", now=house.clock(),
        )  # fmt: skip
    await asked(house, **STANDS)
    _, page = await signed_in(house)
    assert page.ids["times"] == "You have said yes to this 2 times."


async def signed_in(house, name="alice", url=APPROVE):
    browser = house.browser()
    page = await browser.get(url)
    page = await browser.submit(
        page.form(), page, username=name, password=PASSWORD, action="password"
    )
    return browser, page


@pytest.mark.parametrize(("size", "leaves"), [(1, False), (5_000, True)])
async def test_a_long_question_becomes_a_page_beside_the_loop(house, monkeypatch, size, leaves):
    loop, ran, made = threading.get_ident(), set(), Pages.page

    def noting(text):
        ran.add(threading.get_ident() != loop)
        return visible(text)

    def page(self, template, *args, **context):
        if template == "approve.html":
            ran.add(threading.get_ident() != loop)
        return made(self, template, *args, **context)

    monkeypatch.setattr(approvals, "visible", noting)
    monkeypatch.setattr(Pages, "page", page)
    await asked(house, carried=orjson.dumps({"a": "a" * size}))
    _, shown = await signed_in(house)
    assert "a" * size in shown.text
    assert ran == {leaves}


async def test_a_person_signs_in_sees_the_call_and_lets_it_out_once(house):
    await asked(house)
    browser, page = await signed_in(house)
    assert page.url == APPROVE
    assert (page.ids["target"], page.ids["server"], page.ids["effect"]) == (
        "send",
        "mail",
        "egress",
    )
    assert page.ids["arguments"] == 'to ["eve@outside.example"]'
    assert page.ids["reasons"] == "it leaves"
    assert page.ids["evidence"] == "this address stands only in a mail from outside"
    assert "UTC" in page.ids["expires"]
    done = await browser.submit(page.form("approve-question"), page, action="once")
    assert (done.status, done.title) == (200, "Allowed · Douane")
    found = house.approvals.get(ApprovalId("a"), now=house.clock())
    assert (found.state, found.span, found.by, found.by_user_id) == (
        ApprovalState.ALLOWED,
        Span.ONCE,
        "user:alice",
        "id-of-alice",
    )
    record = house.log.records[-1]
    assert (record.kind, record.fields["method"], record.fields["principal"]) == (
        "approval",
        "approvals.allow",
        "user:alice",
    )


async def test_a_yes_can_be_for_the_run(house):
    await asked(house)
    browser, page = await signed_in(house)
    await browser.submit(page.form("approve-question"), page, action="run")
    assert house.approvals.get(ApprovalId("a"), now=house.clock()).span is Span.RUN


async def test_a_no_can_be_for_the_run(house):
    await asked(house)
    browser, page = await signed_in(house)
    await browser.submit(page.form("approve-question"), page, action="deny_run")
    found = house.approvals.get(ApprovalId("a"), now=house.clock())
    assert (found.state, found.span) == (ApprovalState.DENIED, Span.RUN)


async def test_a_no_stands(house):
    await asked(house)
    browser, page = await signed_in(house)
    done = await browser.submit(page.form("approve-question"), page, action="deny")
    assert (done.title, state(house)) == ("Refused · Douane", ApprovalState.DENIED)


async def test_a_form_that_says_neither_leaves_the_question(house):
    await asked(house)
    browser, page = await signed_in(house)
    done = await browser.submit(page.form("approve-question"), page, action="maybe")
    assert (done.status, state(house)) == (400, ApprovalState.WAITING)


async def test_the_page_has_the_headers_of_every_page(house):
    await asked(house)
    _, page = await signed_in(house)
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_an_approver_answers_for_somebody_else(house):
    await asked(house, self_approval=False)
    browser, page = await signed_in(house, "ada")
    await browser.submit(page.form("approve-question"), page, action="once")
    assert house.approvals.get(ApprovalId("a"), now=house.clock()).by == "user:ada"


async def test_an_approver_finds_what_waits_and_is_told_what_follows(house):
    await asked(house, self_approval=False)
    await asked(house, "b", self_approval=False)
    browser, page = await signed_in(house, "ada", url=f"{HTTPS}/approvals")
    assert (page.status, page.url) == (200, f"{HTTPS}/approvals")
    assert all(f'href="/approve/{name}"' in page.body for name in ("a", "b"))
    page = await browser.get(APPROVE)
    done = await browser.submit(page.form("approve-question"), page, action="once")
    assert "your application" not in done.body
    assert "for alice; it goes out when it is made again" in done.body
    page = await browser.get(f"{HTTPS}/approvals")
    assert 'href="/approve/a"' not in page.body
    assert 'href="/approve/b"' in page.body


async def test_which_resource_is_meant_is_told_to_whoever_looks_at_its_question(house):
    uri = "crm://people/eve"
    await asked(house, target=Target(server=UpstreamId("crm"), kind=Kind.RESOURCE, name=uri))
    browser, page = await signed_in(house, url=f"{HTTPS}/approvals")
    assert "a resource" in page.body
    assert uri not in page.body
    page = await browser.get(APPROVE)
    assert uri in page.body
    await browser.submit(page.form("approve-question"), page, action="once")
    assert uri not in (await browser.get(APPROVE)).body


async def test_what_waits_is_put_together_beside_the_loop(house, monkeypatch):
    noted = {}
    made = Pages.page

    def page(pages, template, /, *args, **context):
        noted[template] = threading.get_ident()
        return made(pages, template, *args, **context)

    monkeypatch.setattr(Pages, "page", page)
    await asked(house)
    await signed_in(house, url=f"{HTTPS}/approvals")
    assert noted["approvals.html"] != threading.get_ident()


async def test_what_waits_is_shown_to_nobody_else(house):
    await asked(house)
    _, page = await signed_in(house, "bob", url=f"{HTTPS}/approvals")
    assert (page.status, "none" in page.ids) == (200, True)
    assert "/approve/a" not in page.body


async def test_the_person_whose_call_it_is_gets_no_form_unless_policy_says_so(house):
    await asked(house, self_approval=False)
    _, page = await signed_in(house)
    assert (page.status, page.forms) == (400, [])


async def test_a_question_is_nobody_elses_to_see(house):
    await asked(house)
    _, page = await signed_in(house, "bob")
    _, unknown = await signed_in(house, "bob", url=f"{HTTPS}/approve/unknown")
    assert (page.status, page.forms) == (400, [])
    assert page.body == unknown.body


@pytest.mark.parametrize("other", ["browser", "question", "fingerprint"])
async def test_a_form_answers_only_what_it_showed_in_the_browser_that_saw_it(house, other):
    await asked(house)
    browser, page = await signed_in(house)
    form = page.form("approve-question")
    if other == "browser":
        browser, _ = await signed_in(house)
    elif other == "question":
        await asked(house, "b")
        form.action = "/approve/b"
    else:
        kept = house.approvals.get(ApprovalId("a"), now=house.clock())
        changed = replace(kept, request=question("a", **_same(kept, fingerprint=b"x")))
        house.approvals._book.keep(changed)
    done = await browser.submit(form, page, action="once")
    assert done.status == 403
    assert {one.state for one in house.approvals.all(now=house.clock())} == {ApprovalState.WAITING}


def _same(kept, *, fingerprint):
    request = kept.request
    return {
        "fingerprint": replace(request.fingerprint, octets=fingerprint),
        "user_id": request.user_id,
        "principal": request.principal,
        "subject": request.subject,
        "self_approval": True,
        "asked_at": request.asked_at,
        "expires_at": request.expires_at,
    }


async def test_a_form_of_another_persons_page_answers_nothing(house):
    await asked(house)
    _, page = await signed_in(house)
    browser, _ = await signed_in(house, "ada")
    done = await browser.submit(page.form("approve-question"), page, action="once")
    assert (done.status, state(house)) == (403, ApprovalState.WAITING)


async def test_whoever_is_signed_out_answers_nothing(house):
    await asked(house)
    _, page = await signed_in(house)
    done = await house.browser().submit(page.form("approve-question"), page, action="once")
    assert (done.status, state(house)) == (403, ApprovalState.WAITING)


async def test_a_question_is_answered_once(house):
    await asked(house)
    browser, page = await signed_in(house)
    form = page.form("approve-question")
    await browser.submit(form, page, action="deny")
    again = await browser.submit(form, page, action="once")
    assert (again.status, state(house)) == (400, ApprovalState.DENIED)
    page = await browser.get(APPROVE)
    assert page.title == "Nothing to answer · Douane"
    assert "user:alice answered it on" in page.ids["message"]
    assert page.ids["message"].endswith("It is denied.")
    assert page.links["next"] == "/approvals"


async def test_a_question_to_which_no_answer_counts_says_why_and_offers_none(house):
    await asked(house)
    browser, page = await signed_in(house)
    house.lapsed = "its run has ended"
    late = await browser.submit(page.form("approve-question"), page, action="once")
    assert (late.status, state(house)) == (400, ApprovalState.WAITING)
    page = await browser.get(APPROVE)
    assert page.title == "Nothing to answer · Douane"
    assert "No call goes out by it: its run has ended." in page.ids["message"]
    assert (await browser.get(f"{HTTPS}/approvals")).ids["none"]


async def test_a_second_question_says_why_the_first_answer_does_not_count(house):
    await asked(
        house, follows="z", follows_because="an earlier yes no longer counts: it has run out"
    )
    _, page = await signed_in(house)
    assert page.ids["before"].endswith("an earlier yes no longer counts: it has run out.")


@pytest.mark.parametrize("action", ["once", "run", "deny", "deny_run"])
async def test_every_answer_leads_back_to_what_waits(house, action):
    await asked(house)
    browser, page = await signed_in(house)
    done = await browser.submit(page.form("approve-question"), page, action=action)
    assert done.links["next"] == "/approvals"


async def test_an_answer_that_cannot_be_recorded_is_none(house):
    await asked(house)
    browser, page = await signed_in(house)
    house.log.failure = "disk full"
    done = await browser.submit(page.form("approve-question"), page, action="once")
    assert (done.status, state(house)) == (503, ApprovalState.WAITING)


async def test_nothing_that_an_agent_wrote_hides_or_becomes_markup(house):
    arguments = {"<b id='x'>": "a\u202eb\x1b[2J<script>alert(1)</script>", "long": "y" * 5000}
    await asked(house, carried=orjson.dumps(arguments))
    _, page = await signed_in(house)
    assert not {"script", "b"} & page.elements
    assert "\u202e" not in page.body
    assert "\x1b" not in page.body
    assert "<script>alert(1)</script>" in page.ids["arguments"]
    assert "y" * 5000 in page.ids["arguments"]


async def test_no_place_that_an_answer_would_stand_for_is_cut_short(house):
    place = f"https://good.example:{'1' * 300}@evil.example/\u202e"
    await asked(house, may_stand=True, places=((f"$.{'p' * 300}.to", place),))
    _, page = await signed_in(house)
    assert f"{'p' * 300}.to: " in page.text
    assert "@evil.example/" in page.text
    assert "\u202e" not in page.body


async def test_a_client_that_acts_for_itself_is_called_by_its_name(house):
    await asked(house, subject="257dcc", client_id="257dcc", user_id="")
    browser, inbox = await signed_in(house, "ada", url=f"{HTTPS}/approvals")
    page = await browser.get(APPROVE)
    done = await browser.submit(page.form("approve-question"), page, action="once")
    settled = await browser.get(APPROVE)
    for shown, words in (
        (inbox, "for itself."),
        (page, ", for itself."),
        (done, "Agent can now make this call for itself;"),
        (settled, "for Agent."),
    ):
        assert words in shown.text
        assert "257dcc" not in shown.body


async def test_only_whoever_has_a_desk_is_led_there_and_everybody_back_to_the_list(house):
    await asked(house)
    for name, desk in (("ada", "/desk"), ("alice", None)):
        browser, inbox = await signed_in(house, name, url=f"{HTTPS}/approvals")
        page = await browser.get(APPROVE)
        assert (inbox.links.get("desk"), page.links.get("desk")) == (desk, desk)
        assert "/desk" not in (inbox.body + page.body if desk is None else "")
        assert page.links["inbox"] == "/approvals"
