"""Questions to people and their answers: the same in memory and on the disk."""

import asyncio
from dataclasses import replace

import orjson
import pytest

from gateway.domain.approvals import (
    Approval,
    ApprovalId,
    ApprovalRequest,
    ApprovalRules,
    ApprovalState,
    Span,
)
from gateway.domain.decisions import Reason
from gateway.domain.document import Digest, canonical
from gateway.domain.flow import RunId
from gateway.domain.labels import STRICTEST_DEFAULT, Effect
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.errors import Denied, NotFound, RateLimited, Unsealable
from gateway.storage import approvals, questions
from gateway.storage.approvals import DurableApprovalStore
from gateway.storage.postgres.approvals import SharedApprovalStore
from tests.storage.memory_people import MemoryApprovalStore
from tests.storage.placed import PostgresPlace

NOW = 1_800_000_000.0
RULES = ApprovalRules(
    expire_s=100.0, denial_holds_s=50.0, most_waiting=3, most_per_hour=5, keep_s=100_000.0
)
SECRET = "the secret plan"


class Envelope:
    """Seals so that a test can tell what is sealed, for which row."""

    def seal(self, plain, row):
        return f"{row}|{plain[::-1].hex()}"

    def open(self, sealed, row):
        place, _, text = sealed.rpartition("|")
        if place != row:
            raise Unsealable("a secret at rest cannot be opened")
        return bytes.fromhex(text)[::-1]


def digest(text):
    return Digest.of(text.encode())


def question(name="a", *, call="call", scope="scope", principal="p", now=NOW, **changes):
    made = ApprovalRequest(
        id=ApprovalId(name),
        fingerprint=digest(call),
        scope=digest(scope),
        principal=principal,
        subject="emma",
        user_id="u_emma",
        client_id="c_1",
        client_name="Agent",
        run=RunId("r_1"),
        target=Target(server=UpstreamId("mail"), kind=Kind.TOOL, name="send"),
        effect=Effect.EGRESS,
        pin_digest=digest("pin"),
        carried=canonical({"to": ["eve@outside.example"], "body": SECRET, "n": 1.5}),
        label=STRICTEST_DEFAULT,
        reasons=(Reason(code="egress", message="it leaves"),),
        evidence=("this address stands only in a mail from outside",),
        decision_id="d_1",
        policy_digest="sha256:policy",
        self_approval=True,
        question=b'{"phase":"call"}',
        asked_at=now,
        expires_at=now + RULES.expire_s,
    )
    return replace(made, **changes)


def find(store, call="call", scope="scope", *, now=NOW):
    return store.find(digest(call), digest(scope), now=now)


async def answer(store, name="a", *, allow=True, span=Span.ONCE, now=NOW + 1):
    return await store.answer(
        ApprovalId(name), allow=allow, span=span, by="user:ada", by_user_id="u_ada", note="ok",
        now=now,
    )  # fmt: skip


async def put(store, name, call, *, allow, span=Span.ONCE, scope="scope"):
    await store.file(question(name, call=call, scope=scope))
    return await answer(store, name, allow=allow, span=span)


class ApprovalStoreSuite:
    async def test_where_a_call_goes_and_whether_an_answer_may_stand_is_kept(self, store):
        places = (("$.cc", SECRET), ("$.to", "eve@outside.example"))
        await store.file(question(places=places, may_stand=True))
        assert find(store).request == question(places=places, may_stand=True)

    async def test_by_an_answer_that_stands_nothing_goes_out(self, store):
        await put(store, "a", "call", allow=True, span=Span.STANDING)
        assert find(store, now=NOW + 2) is None
        assert await store.use(ApprovalId("a"), now=NOW + 2) is False
        found = store.get(ApprovalId("a"), now=NOW + 10_000)
        assert (found.state, found.span) == (ApprovalState.ALLOWED, Span.STANDING)
        await store.file(question("again", now=NOW + 3))
        assert find(store, now=NOW + 3).request.id == "again"

    async def test_what_a_plane_submitted_is_found_by_what_it_calls_it(self, store):
        named = {"plane": "edge", "submission": digest("key"), "submitted": digest("body")}
        await store.file(question("a", **named))
        await store.file(question("b", call="b", now=NOW + 1))
        assert store.under(digest("key"), now=NOW) == [
            Approval(request=question("a", **named), state=ApprovalState.WAITING)
        ]
        again = await store.file(question("c", now=NOW + 2))  # read anew where it is on a disk
        assert again.request == replace(question("a", **named), asked=2)
        assert [one.request.id for one in store.under(digest("call"), now=NOW)] == ["a"]
        assert store.under(digest("scope"), now=NOW) == []
        (late,) = store.under(digest("b"), now=NOW + 1000)
        assert late.state is ApprovalState.EXPIRED

    async def test_a_question_that_is_taken_back_is_answered_by_nobody(self, store):
        await store.file(question())
        taken = await store.withdraw(ApprovalId("a"), now=NOW + 1)
        assert (taken.state, taken.at) == (ApprovalState.WITHDRAWN, None)
        assert find(store, now=NOW + 1) is None
        assert store.get(ApprovalId("a"), now=NOW + 1) == taken
        with pytest.raises(Denied):
            await answer(store, now=NOW + 2)
        with pytest.raises(Denied):
            await store.withdraw(ApprovalId("a"), now=NOW + 2)
        with pytest.raises(NotFound):
            await store.withdraw(ApprovalId("x"), now=NOW + 2)

    async def test_what_is_ended_neither_waits_nor_counts(self, store):
        await store.file(question("w", call="w"))
        assert (await store.end(ApprovalId("w"), now=NOW + 1)).state is ApprovalState.WITHDRAWN
        await put(store, "a", "call", allow=True, span=Span.RUN)
        await store.end(ApprovalId("a"), now=NOW + 2)
        assert find(store, now=NOW + 2) is None
        assert await store.use(ApprovalId("a"), now=NOW + 2) is False
        assert store.get(ApprovalId("a"), now=NOW + 2).state is ApprovalState.EXPIRED
        await put(store, "s", "s", allow=True, span=Span.STANDING)
        await put(store, "n", "n", allow=False)
        for name in ("w", "a", "s", "n"):
            with pytest.raises(Denied):
                await store.end(ApprovalId(name), now=NOW + 3)
        with pytest.raises(NotFound):
            await store.end(ApprovalId("x"), now=NOW + 3)
        await store.file(question("again", now=NOW + 3))
        assert find(store, now=NOW + 3).request.id == "again"

    async def test_what_is_answered_is_not_taken_back(self, store):
        await put(store, "a", "call", allow=True)
        with pytest.raises(Denied):
            await store.withdraw(ApprovalId("a"), now=NOW + 2)
        assert find(store, now=NOW + 2).state is ApprovalState.ALLOWED

    async def test_every_yes_of_a_principal_is_known_also_after_it_ran_out(self, store):
        for name, client in (("yes", "c_1"), ("used", "c_1"), ("no", "c_1"), ("other", "c_2")):
            named = {"principal": f"iss|emma|{client}", "client_id": client}
            await store.file(question(name, call=name, **named))
            await answer(store, name, allow=name != "no")
        await store.use(ApprovalId("used"), now=NOW + 2)
        assert [one.request.id for one in store.yeses("iss|emma|c_1")] == ["used", "yes"]
        assert store.yeses("nobody") == []
        assert [one.request.id for one in store.yeses()] == ["other", "used", "yes"]

    async def test_a_question_is_found_by_its_fingerprint_as_it_was_filed(self, store):
        filed = await store.file(question())
        assert filed == Approval(request=question(), state=ApprovalState.WAITING)
        assert find(store) == filed
        assert store.get(ApprovalId("a"), now=NOW) == filed
        assert store.all(now=NOW) == [filed]
        assert find(store, "another call") is None
        assert find(store, "another call", "call") is None

    async def test_the_same_question_is_counted_and_not_filed_again(self, store):
        await store.file(question("a"))
        again = await store.file(question("b", now=NOW + 1))
        assert (again.request.id, again.request.asked) == ("a", 2)
        assert again.request.asked_at == NOW
        assert [one.request.id for one in store.all(now=NOW)] == ["a"]

    async def test_many_at_once_file_one_question(self, store):
        filed = await asyncio.gather(*(store.file(question(f"q{n}")) for n in range(20)))
        assert {one.request.id for one in filed} == {filed[0].request.id}
        assert find(store).request.asked == 20

    async def test_an_answer_stands_with_who_gave_it(self, store):
        await store.file(question())
        given = await answer(store)
        assert given == Approval(
            request=replace(question(), expires_at=NOW + 1 + RULES.expire_s),
            state=ApprovalState.ALLOWED,
            span=Span.ONCE,
            by="user:ada",
            by_user_id="u_ada",
            at=NOW + 1,
            note="ok",
        )
        assert find(store) == given

    async def test_a_question_is_answered_once(self, store):
        await store.file(question())
        outcomes = await asyncio.gather(
            *(answer(store, allow=n % 2 == 0) for n in range(10)), return_exceptions=True
        )
        assert sum(isinstance(one, Approval) for one in outcomes) == 1
        assert sum(isinstance(one, Denied) for one in outcomes) == 9

    async def test_a_question_that_nobody_asked_cannot_be_answered(self, store):
        with pytest.raises(NotFound):
            await answer(store, "no such")

    async def test_a_question_runs_out(self, store):
        await store.file(question())
        late = NOW + RULES.expire_s
        assert find(store, now=late - 0.001) is not None
        assert find(store, now=late) is None
        assert [one.state for one in store.all(now=late)] == [ApprovalState.EXPIRED]
        with pytest.raises(Denied):
            await answer(store, now=late)

    async def test_a_question_that_has_run_out_is_filed_anew(self, store):
        await store.file(question("a"))
        again = await store.file(question("b", now=NOW + RULES.expire_s))
        assert (again.request.id, again.request.asked) == ("b", 1)

    async def test_a_yes_for_one_call_is_used_once_by_many_at_once(self, store):
        await put(store, "a", "call", allow=True)
        used = await asyncio.gather(*(store.use(ApprovalId("a"), now=NOW + 2) for _ in range(50)))
        assert sorted(used) == [False] * 49 + [True]
        assert store.get(ApprovalId("a"), now=NOW).state is ApprovalState.USED
        assert find(store, now=NOW + 2) is None

    async def test_a_yes_runs_out(self, store):
        await put(store, "a", "call", allow=True)
        late = NOW + 1 + RULES.expire_s
        assert find(store, now=late) is None
        assert await store.use(ApprovalId("a"), now=late) is False

    @pytest.mark.parametrize("allow", [False, None], ids=["a no", "no answer"])
    async def test_only_a_yes_can_be_used(self, store, allow):
        await store.file(question())
        if allow is not None:
            await answer(store, allow=allow)
        assert await store.use(ApprovalId("a"), now=NOW + 2) is False
        assert await store.use(ApprovalId("no such"), now=NOW + 2) is False

    async def test_a_yes_for_the_run_holds_for_its_scope_until_it_runs_out(self, store):
        given = await put(store, "a", "call", allow=True, span=Span.RUN)
        assert find(store, "another call", now=NOW + 2) == given
        assert find(store, "another call", "another scope", now=NOW + 2) is None
        assert [await store.use(ApprovalId("a"), now=NOW + 2) for _ in range(3)] == [True] * 3
        late = NOW + 1 + RULES.expire_s
        assert find(store, "another call", now=late) is None
        assert await store.use(ApprovalId("a"), now=late) is False

    async def test_a_yes_for_one_call_holds_for_no_other(self, store):
        await put(store, "a", "call", allow=True)
        assert find(store, "another call", now=NOW + 2) is None

    async def test_a_no_holds_for_a_time_of_its_own(self, store):
        await put(store, "a", "call", allow=False)
        late = NOW + 1 + RULES.denial_holds_s
        assert find(store, now=late - 0.001).state is ApprovalState.DENIED
        assert find(store, now=late) is None

    async def test_a_no_goes_before_a_yes_and_the_call_before_its_scope(self, store):
        await put(store, "yes to all", "first", allow=True, span=Span.RUN)
        assert find(store, "second", now=NOW + 2).request.id == "yes to all"
        await put(store, "no", "second", allow=False)
        assert find(store, "second", now=NOW + 2).request.id == "no"
        await put(store, "no to all", "third", allow=False, span=Span.RUN)
        assert find(store, "fourth", now=NOW + 2).request.id == "no to all"
        assert find(store, "first", now=NOW + 2).request.id == "yes to all"

    async def test_an_answer_goes_before_a_question_that_waits(self, store):
        await store.file(question("waits", call="second"))
        assert find(store, "second").request.id == "waits"
        await put(store, "yes", "first", allow=True, span=Span.RUN)
        assert find(store, "second", now=NOW + 2).request.id == "yes"

    async def test_too_many_questions_of_one_principal_do_not_wait(self, store):
        for n in range(RULES.most_waiting):
            await store.file(question(f"q{n}", call=f"c{n}"))
        with pytest.raises(RateLimited):
            await store.file(question("more", call="more"))
        assert store.get(ApprovalId("more"), now=NOW) is None
        assert (await store.file(question("same", call="c0"))).request.asked == 2
        await store.file(question("other", call="other", principal="another"))
        await answer(store, "q0")
        await store.file(question("more", call="more"))

    async def test_too_many_questions_within_an_hour_are_not_asked(self, store, monkeypatch):
        monkeypatch.setattr(questions, "MOST_KEPT", 1)
        for n in range(RULES.most_per_hour):
            await put(store, f"q{n}", f"c{n}", allow=False)
        with pytest.raises(RateLimited):
            await store.file(question("more", call="more", now=NOW + 3599.0))
        await store.file(question("more", call="more", now=NOW + questions.HOUR_S))

    async def test_how_many_there_are_in_each_state_is_told_as_of_now(self, store):
        await put(store, "no", "c0", allow=False)
        await put(store, "used", "c1", allow=True)
        await store.use(ApprovalId("used"), now=NOW + 2)
        for n in range(3):
            await store.file(question(f"q{n}", call=f"q{n}"))
        assert store.counts(now=NOW + 2) == {
            ApprovalState.DENIED: 1,
            ApprovalState.USED: 1,
            ApprovalState.WAITING: 3,
        }
        assert store.counts(now=NOW * 2) == {ApprovalState.USED: 1, ApprovalState.EXPIRED: 4}

    async def test_a_person_with_many_clients_asks_no_more_questions(self, store):
        for n in range(RULES.most_waiting):
            of = {"principal": f"iss|emma|c{n}", "client_id": f"c{n}"}
            await store.file(question(f"q{n}", call=f"c{n}", **of))
        with pytest.raises(RateLimited, match="wait"):
            await store.file(question("m", call="m", principal="iss|emma|more", client_id="more"))
        of = {"principal": "iss|emma|c0|c0", "client_id": "c0"}  # somebody whose name begins so
        await store.file(question("other", call="other", **of))

    async def test_bytes_of_questions_are_a_persons_with_whatever_clients(self, store, monkeypatch):
        large = question("q0", principal="iss|emma|a", client_id="a", carried=b"%d" % 10**4000)
        monkeypatch.setattr(questions, "OCTETS_OF_ONE", questions.octets_of(large) + 1_000)
        await store.file(large)
        with pytest.raises(RateLimited):
            await store.file(question("more", call="m", principal="iss|emma|b", client_id="b"))

    async def test_what_was_kept_for_long_enough_is_forgotten(self, store):
        await store.file(question("old"))
        kept = NOW + RULES.expire_s + RULES.keep_s
        await store.file(question("new", call="new", now=kept - 1))
        assert [one.request.id for one in store.all(now=kept)] == ["old", "new"]
        await store.file(question("newer", call="newer", now=kept))
        assert [one.request.id for one in store.all(now=kept)] == ["new", "newer"]

    async def test_no_more_than_so_many_that_ended_are_kept(self, store, monkeypatch):
        monkeypatch.setattr(questions, "MOST_KEPT", 2)
        for n in range(4):
            await store.file(question(f"q{n}", call=f"c{n}", now=NOW + n * questions.HOUR_S))
        await store.file(question("new", call="new", now=NOW + 5 * questions.HOUR_S))
        assert [one.request.id for one in store.all(now=NOW)] == ["q2", "q3", "new"]

    async def test_what_ended_makes_room_for_the_next_question(self, store, monkeypatch):
        monkeypatch.setattr(questions, "OCTETS_OF_ONE", 2 * questions.octets_of(question()))
        hours = [NOW + n * questions.HOUR_S for n in range(4)]
        for n, now in enumerate(hours):
            await store.file(question(f"q{n}", call=f"c{n}", now=now))
        assert [one.request.id for one in store.all(now=NOW)] == ["q2", "q3"]

    async def test_questions_that_wait_leave_no_room_for_more_bytes(self, store, monkeypatch):
        large = question("q0", carried=b'{"body":"%b"}' % (b"x" * 60_000))
        monkeypatch.setattr(questions, "OCTETS_OF_ONE", questions.octets_of(large) + 4_000)
        await store.file(large)
        with pytest.raises(RateLimited):
            await store.file(question("more", call="more"))
        assert (await store.file(replace(large, id=ApprovalId("same")))).request.asked == 2
        await store.file(question("other", call="other", principal="another"))

    async def test_all_questions_together_have_so_much_room(self, store, monkeypatch):
        octets = questions.octets_of(question(principal="p0"))
        monkeypatch.setattr(questions, "OCTETS", 2 * octets)
        for n in range(2):
            await store.file(question(f"q{n}", call=f"c{n}", principal=f"p{n}"))
        with pytest.raises(RateLimited):
            await store.file(question("more", call="more", principal="p2"))
        later = NOW + questions.HOUR_S
        await store.file(question("more", call="more", principal="p2", now=later))
        assert [one.request.id for one in store.all(now=NOW)] == ["q1", "more"]


class TestMemory(ApprovalStoreSuite):
    @pytest.fixture
    def store(self):
        return MemoryApprovalStore(RULES)


def kept_in(place):
    with place.reading() as tables:
        if isinstance(place, PostgresPlace):
            return SharedApprovalStore(place.state, tables, Envelope(), lambda: RULES)
        return DurableApprovalStore(place.writer, tables, Envelope(), lambda: RULES)


class TestDurable(ApprovalStoreSuite):
    @pytest.fixture
    def store(self, place):
        return kept_in(place)

    async def test_a_restart_remembers_everything(self, store, place):
        await store.file(question("waits", call="waits"))
        await store.file(question("waits again", call="waits"))
        await put(store, "yes", "yes", allow=True, span=Span.RUN)
        await put(store, "no", "no", allow=False)
        await put(store, "used", "used", allow=True)
        await store.use(ApprovalId("used"), now=NOW + 2)
        again = kept_in(place)
        assert again.all(now=NOW + 2) == store.all(now=NOW + 2)
        assert len(again.all(now=NOW + 2)) == 4

    async def test_what_a_question_says_is_sealed_for_its_row(self, store, place):
        await store.file(question())
        (row,) = place.rows("SELECT * FROM approvals")
        assert not [cell for cell in row if isinstance(cell, str) and SECRET in cell]
        assert not [cell for cell in row if isinstance(cell, str) and "eve@" in cell]
        assert row[-1].startswith("approvals:a:question|")

    async def test_a_question_of_an_earlier_version_may_not_stand(self, store, place, monkeypatch):
        monkeypatch.setattr(approvals, "_spelled", _as_before(approvals._spelled))
        await store.file(question(places=(("$.to", "x"),), may_stand=True))
        found = kept_in(place).get(ApprovalId("a"), now=NOW).request
        assert (found.places, found.may_stand) == ((), False)

    async def test_a_question_moved_to_another_row_is_not_read(self, store, place):
        await store.file(question("a"))
        await store.file(question("b", call="b"))

        def swap(tables):
            tables.execute(
                "UPDATE approvals SET question = (SELECT question FROM approvals WHERE id = 'b')"
                " WHERE id = 'a'"
            )

        await place.writer.run(swap)
        with pytest.raises(Unsealable):
            kept_in(place)


def _as_before(spelled):
    def without(request):
        content = orjson.loads(spelled(request))
        return orjson.dumps({k: v for k, v in content.items() if k not in {"places", "may_stand"}})

    return without
