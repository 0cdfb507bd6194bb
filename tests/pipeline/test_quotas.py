"""What quotas let through: exactly so much, in each span, of each of what they count apart."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.approvals import Span
from gateway.domain.audit import AuditRecord
from gateway.domain.calls import Form
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.labels import Effect, ToolRule
from gateway.domain.quotas import MILLIONTHS, Charge, Count, Each, Per, Quota
from gateway.domain.tools import Profile
from gateway.errors import (
    AuditUnavailable,
    CredentialRequired,
    UpstreamFailed,
    UpstreamResting,
)
from gateway.pipeline import quotas
from gateway.pipeline.counts import Counts
from gateway.pipeline.quotas import Quotas
from gateway.ports.allowance import Use, Used
from gateway.upstream.faults import Challenged
from tests.pipeline.house import ALICE, Events, House, decision, event, result, text

DAY_S = 86_400


def quota(**more: Any) -> Quota:
    return Quota(**{"name": "mails", "count": Count.CALLS, "most": 2, "per": Per.DAY, **more})


async def built(*quotas: Quota, prices: dict[tuple[str, str], int] | None = None) -> House:
    house = House(tools={"send": ToolRule(effect=Effect.EGRESS)})
    house.gate.people |= {
        "emma": replace(ALICE, subject="emma", client_id="other", groups=frozenset({"sales"})),
        "bob": replace(ALICE, subject="bob", groups=frozenset({"users", "sales"})),
    }
    house.quotas = Quotas(quotas, prices=prices or {}, clock=house.clock)
    house.pipeline = house._wired()
    for profile in Profile:
        await house.approve_all(profile)
    return house


async def code(house: House, tool: str = "send", who: str = "alice", **more: Any) -> str:
    return (await house.handle(house.call(tool, who=who, **more))).code or "ok"


async def codes(house: House, calls: list[tuple[str, str]]) -> list[str]:
    return [await code(house, tool, who) for tool, who in calls]


async def test_so_many_calls_pass_in_a_span_and_no_more() -> None:
    house = await built(quota())
    assert [await code(house) for _ in range(3)] == ["ok", "ok", "rate_limited"]
    assert len(house.server.saw) == 2
    house.now += DAY_S
    assert await code(house) == "ok"


async def test_the_refusal_says_what_is_used_up_when_there_is_more_and_who_can_help() -> None:
    house = await built(quota(most=0))
    seen = await house.handle(house.call("send"))
    told = seen.json["result"]
    # 1_800_000_000 is 08:00:00 in UTC.
    assert told["_meta"]["douane/refusal"]["retry_after_s"] == 16 * 3600
    said = told["content"][0]["text"]
    for part in ("quota mails", "0 of 0 calls a day", "2027-01-16T00:00:00Z", "`limits.quotas`"):
        assert part in said
    assert dict(seen.reply.headers)["ratelimit-policy"] == '"mails";q=0;w=86400'
    assert dict(seen.reply.headers)["ratelimit"] == f'"mails";r=0;t={16 * 3600}'


async def test_of_a_hundred_at_once_exactly_as_many_pass_as_there_is_room_for() -> None:
    house = await built(quota(most=37))
    found = await asyncio.gather(*(code(house) for _ in range(100)))
    assert (found.count("ok"), found.count("rate_limited")) == (37, 63)
    assert len(house.server.saw) == 37


EVERYBODY = [("send", "alice"), ("send", "bob"), ("send", "alice"), ("search", "alice")]


@pytest.mark.parametrize(
    ("about", "passed"),
    [
        pytest.param({}, [True, False, False, False], id="all together"),
        pytest.param({"people": frozenset({"bob"})}, [True, True, True, True], id="a person"),
        pytest.param({"groups": frozenset({"sales"})}, [True, True, True, True], id="a group"),
        pytest.param({"clients": frozenset({"nobody"})}, [True, True, True, True], id="a client"),
        pytest.param({"servers": frozenset({"mail"})}, [True, False, False, False], id="a server"),
        pytest.param({"servers": frozenset({"x"})}, [True, True, True, True], id="another server"),
        pytest.param({"tools": frozenset({"send"})}, [True, False, False, True], id="a tool"),
        pytest.param(
            {"effects": frozenset({Effect.EGRESS})}, [True, False, False, True], id="an effect"
        ),
        pytest.param({"each": (Each.PERSON,)}, [True, True, False, False], id="each person"),
        pytest.param({"each": (Each.CLIENT,)}, [True, False, False, False], id="each client"),
        pytest.param({"each": (Each.GROUP,)}, [True, False, False, False], id="each group"),
        pytest.param({"each": (Each.SERVER,)}, [True, False, False, False], id="each server"),
        pytest.param({"each": (Each.TOOL,)}, [True, False, False, True], id="each tool"),
        pytest.param({"each": (Each.EFFECT,)}, [True, False, False, True], id="each effect"),
        pytest.param({"each": (Each.RUN,)}, [True, True, False, False], id="each run"),
    ],
)
async def test_a_quota_is_about_what_it_names_and_counts_apart_what_it_says(
    about: dict[str, Any], passed: list[bool]
) -> None:
    house = await built(quota(most=1, **about))
    assert [one == "ok" for one in await codes(house, EVERYBODY)] == passed


async def test_all_that_a_caller_may_name_at_a_server_counts_as_one() -> None:
    house = await built(quota(each=(Each.TOOL,)))
    house.server.answer = lambda permit: result(permit, {"contents": []})
    asked = [house.request("resources/read", {"uri": f"mail://{n}/secret"}) for n in range(3)]
    assert [(await house.handle(one)).code for one in asked] == [None, None, "rate_limited"]
    charged = [one for record in house.audit.records for one in record.fields.get("charged", ())]
    assert [one["under"] for one in charged] == [["mail/resource"]] * 2


async def test_somebody_in_two_groups_is_counted_in_both() -> None:
    house = await built(quota(most=1, each=(Each.GROUP,)))
    assert await codes(house, [("send", "bob"), ("send", "alice"), ("send", "emma")]) == [
        "ok",
        "rate_limited",
        "rate_limited",
    ]


async def test_what_is_refused_uses_nothing_up() -> None:
    house = await built(quota(most=1))
    house.rule.says = lambda question: (
        Verdict.DENY if question["phase"] == "call" else Verdict.ALLOW
    )
    assert await code(house) == "denied"
    house.rule.says = lambda question: Verdict.ALLOW
    assert await code(house) == "ok"


async def test_what_changed_after_the_intent_uses_nothing_up() -> None:
    house = await built(quota(most=1))
    append = house.audit.append

    async def stopping(record: Any) -> Any:
        entry = await append(record)
        house.stopped = record.kind == "intent"
        return entry

    house.audit.append = stopping  # type: ignore[method-assign]
    assert await code(house) == "policy_stopped"
    assert [one["amount"] for r in house.audit.records for one in r.fields.get("charged", ())] == [
        1,
        -1,
    ]
    house.audit.append = append  # type: ignore[method-assign]
    house.stopped = False
    assert await code(house) == "ok"


async def test_what_never_left_uses_nothing_up_and_what_failed_at_the_server_counts() -> None:
    house = await built(quota(most=1))
    house.server.answer = raising(UpstreamResting("it rests"))
    assert await code(house) == "upstream_failed"
    house.server.answer = raising(UpstreamFailed("it broke"))
    assert [await code(house) for _ in range(2)] == ["upstream_failed", "rate_limited"]


async def test_what_a_server_refused_for_its_credential_was_sent_and_counts() -> None:
    house = await built(quota(most=1))
    house.server.answer = raising(CredentialRequired("connect it first", url="https://x.example"))
    assert await code(house) == "credential_required"
    house.server.answer = raising(Challenged(401, "Bearer"))
    assert [await code(house) for _ in range(2)] == ["credential_required", "rate_limited"]


def raising(error: Exception) -> Any:
    def answer(permit: Any) -> Any:
        raise error

    return answer


async def test_a_call_whose_intent_may_yet_come_into_the_log_counts() -> None:
    house = await built(quota(most=1))
    append = house.audit.append

    async def failing(record: Any) -> Any:
        if record.kind == "intent":
            raise AuditUnavailable("no")
        return await append(record)

    house.audit.append = failing  # type: ignore[method-assign]
    assert await code(house) == "audit_unavailable"
    assert all("charged" not in r.fields for r in house.audit.records)
    house.audit.append = append  # type: ignore[method-assign]
    assert await code(house) == "rate_limited"


async def test_bytes_count_in_both_directions() -> None:
    house = await built(quota(count=Count.BYTES, most=100_000))
    assert await code(house) == "ok"
    intent, outcome = (r.fields["charged"][0]["amount"] for r in house.audit.records[-2:])
    assert intent == len(house.server.saw[0].call.message.body)
    assert outcome == house.last["result_bytes"]


async def test_the_answer_to_a_call_whose_stream_was_cut_counts_where_it_comes_later() -> None:
    house = await built(quota(count=Count.BYTES, most=100_000))
    asked = partial(house.request, profile=Profile.LEGACY, session="s1")
    house.server.answer = lambda permit: Events([]).answer()
    await house.handle(asked("tools/call", {"name": "send", "arguments": {}}, id_=7))
    late = {"jsonrpc": "2.0", "id": 7, "result": text("x" * 90_000)}
    house.server.answer = lambda permit: Events([event(late)]).answer()
    seen = await house.handle(asked("GET", form=Form.STREAM, id_=None))
    assert len(seen.bytes) > 90_000
    assert [one["amount"] > 90_000 for r in house.audit.records for one in charged(r)] == [
        False,
        True,
    ]
    left = house.quotas.fullest()["mails"]()
    assert 0.9 < left < 1


def charged(record: AuditRecord) -> Any:
    return record.fields.get("charged", ())


async def test_a_price_of_the_configuration_counts_and_the_last_that_fits_passes() -> None:
    spent = quota(count=Count.COST, most=MILLIONTHS)
    house = await built(spent, prices={("mail", "send"): MILLIONTHS * 4 // 10})
    found = [await code(house) for _ in range(3)]
    assert found == ["ok", "ok", "rate_limited"]
    assert await code(house, "search") == "ok"


async def test_no_more_calls_are_under_way_than_allowed() -> None:
    house = await built(quota(count=Count.UNDER_WAY, most=1, per=None))
    assert [await code(house) for _ in range(3)] == ["ok"] * 3
    found = await asyncio.gather(code(house), code(house))
    assert sorted(found) == ["ok", "rate_limited"]
    assert all("charged" not in r.fields for r in house.audit.records)


async def test_policy_is_told_of_quotas_that_are_about_the_call_and_of_no_others() -> None:
    house = await built(quota(tools=frozenset({"send"})))
    asked: list[Any] = []

    def says(question: Any) -> Verdict | Decision:
        if question["phase"] == "call":
            asked.append(question["usage"])
        assert question["phase"] != "list" or "usage" not in question
        return Verdict.ALLOW

    house.rule.says = says
    for tool in ("search", "send", "send"):
        assert await code(house, tool) == "ok"
    assert asked[0] == {"over": [], "counts": []}
    assert [one["counts"][0]["left"] for one in asked[1:]] == [2, 1]
    assert asked[2]["over"] == []


def asks_where_it_is_used_up(question: Any) -> Verdict | Decision:
    over = question["phase"] == "call" and question["usage"]["over"]
    if not over or isinstance(question["approval"], dict):
        return Verdict.ALLOW
    return decision(Verdict.ASK, "quota_used_up")


@pytest.mark.parametrize(
    ("span", "then"), [(Span.ONCE, ["ok", "approval_required"]), (Span.RUN, ["rate_limited"] * 2)]
)
async def test_a_persons_yes_lets_one_call_pass_and_one_for_more_none(
    span: Span, then: list[str]
) -> None:
    house = await built(quota(most=1))
    house.rule.says = asks_where_it_is_used_up
    assert [await code(house) for _ in range(2)] == ["ok", "approval_required"]
    (found,) = house.approvals.all(now=house.now)
    await house.approvals.answer(
        found.request.id, allow=True, span=span, by="user:ada", by_user_id="u_ada", note="",
        now=house.now,
    )  # fmt: skip
    assert [await code(house) for _ in range(2)] == then


async def test_a_yes_raises_the_quotas_that_it_was_asked_about_and_no_other() -> None:
    mails, money = quota(most=1), quota(name="money", most=2)
    house = await built(mails, money)
    house.rule.says = asks_where_it_is_used_up
    assert [await code(house) for _ in range(2)] == ["ok", "approval_required"]
    (found,) = house.approvals.all(now=house.now)
    await house.approvals.answer(
        found.request.id, allow=True, span=Span.ONCE, by="user:ada", by_user_id="u_ada", note="",
        now=house.now,
    )  # fmt: skip
    (spent,) = house.quotas._about("mail")[1:]
    spent.add((), spent.begin, 1)
    assert await code(house) == "approval_required"
    assert len(house.server.saw) == 1


async def test_whose_yes_was_used_up_meanwhile_has_used_nothing_of_a_quota() -> None:
    house = await built(quota(most=2))
    house.rule.says = lambda question: (
        decision(Verdict.ASK, "look")
        if question["phase"] == "call" and question["approval"] is None
        else Verdict.ALLOW
    )
    assert await code(house) == "approval_required"
    (found,) = house.approvals.all(now=house.now)
    await house.approvals.answer(
        found.request.id, allow=True, span=Span.ONCE, by="user:ada", by_user_id="u_ada", note="",
        now=house.now,
    )  # fmt: skip
    use = house.approvals.use

    async def lost(*args: Any, **more: Any) -> bool:
        return False

    house.approvals.use = lost  # type: ignore[method-assign]
    for _ in range(3):
        assert await code(house) == "approval_required"
    house.approvals.use = use  # type: ignore[method-assign]
    house.rule.says = lambda question: Verdict.ALLOW
    assert [await code(house) for _ in range(3)] == ["ok", "ok", "rate_limited"]


async def test_a_quota_holds_whatever_policy_says() -> None:
    house = await built(quota(most=1))
    house.rule.says = lambda question: Verdict.ALLOW
    assert [await code(house) for _ in range(2)] == ["ok", "rate_limited"]


@given(
    st.lists(st.tuples(st.integers(-3 * DAY_S, 3 * DAY_S), st.integers(1, 3)), max_size=40),
    st.sampled_from(list(Per)),
)
def test_in_no_span_is_more_used_than_allowed_however_clocks_jump(
    steps: list[tuple[int, int]], per: Per
) -> None:
    counts, now, newest = Counts(quota(most=5, per=per)), 1_800_000_000.0, 0
    passed: dict[int, int] = {}
    for jump, amount in steps:
        now += jump
        counts.turn(now)
        newest = max(newest, per.begins(now))
        used = passed.get(newest, 0)
        assert counts.left(()) == 5 - used
        if amount <= counts.left(()):
            counts.add((), counts.begin, amount)
            passed[newest] = used + amount
    assert all(used <= 5 for used in passed.values())


@given(st.integers(0, 4_000_000_000), st.sampled_from(list(Per)))
def test_spans_follow_each_other_without_a_gap(now: int, per: Per) -> None:
    begin = per.begins(now)
    end = begin + per.seconds(begin)
    assert begin <= now < end
    assert (per.begins(end - 1), per.begins(end)) == (begin, end)


async def test_what_was_used_before_a_restart_is_used_and_what_is_over_is_not() -> None:
    house = await built()
    today = Per.DAY.begins(house.now)
    for begin, then in ((today, "rate_limited"), (today - DAY_S, "ok")):
        kept = Charge(quota=quota().key, under=(), begin=begin, amount=2)
        house.quotas = Quotas([quota()], prices={}, clock=house.clock, kept=[kept])
        house.pipeline = house._wired()
        assert await code(house) == then


class Slowly:
    """What all gateways count together, which takes as long as it is told to."""

    def __init__(self, *, fits: bool = True) -> None:
        self.asked: list[int] = []
        self.fits = fits
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def add(self, uses: Sequence[Use]) -> Sequence[Used]:
        # What is done on a thread is done, whether anybody waits for it or not.
        return await asyncio.shield(asyncio.create_task(self._added(uses)))

    async def _added(self, uses: Sequence[Use]) -> Sequence[Used]:
        self.begun.set()
        await self.go.wait()
        self.asked += [one.amount for one in uses]
        return [Used(used=0, fits=self.fits) for _ in uses]


@pytest.mark.parametrize(("fits", "asked"), [(True, [1, -1]), (False, [1])])
async def test_whoever_leaves_while_a_call_is_charged_has_used_nothing(
    fits: bool, asked: list[int]
) -> None:
    house = await built()
    shared = Slowly(fits=fits)
    under_way = quota(name="at once", count=Count.UNDER_WAY, per=None, most=1)
    house.quotas = Quotas([under_way], prices={}, clock=house.clock, shared=shared)
    house.pipeline = house._wired()
    call = asyncio.create_task(house.handle(house.call("send")))
    await asyncio.wait_for(shared.begun.wait(), 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    shared.go.set()
    for _ in range(100):
        await asyncio.sleep(0)  # whatever is left to be done, is done
    assert (shared.asked, house.server.saw) == (asked, [])
    shared.fits = True
    assert await code(house) == "ok"


class Away:
    """The same, while nobody can be told what is given back."""

    def __init__(self) -> None:
        self.used = 0
        self.is_away = True
        self.given_back: list[int] = []

    async def add(self, uses: Sequence[Use]) -> Sequence[Used]:
        amounts = [one.amount for one in uses]
        if self.is_away and min(amounts) < 0:
            raise AuditUnavailable("away")
        self.given_back += [amount for amount in amounts if amount < 0]
        fits = all(one.most is None or self.used + one.amount <= one.most for one in uses)
        self.used += sum(amounts) if fits else 0
        return [Used(used=self.used, fits=fits) for _ in uses]


async def test_what_nobody_could_be_told_is_given_back_once_somebody_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of what is under way it would be missing for as long as this gateway runs."""
    monkeypatch.setattr(quotas, "_AGAIN_S", 0.0)
    house, shared = await built(), Away()
    under_way = quota(name="at once", count=Count.UNDER_WAY, per=None, most=2)
    house.quotas = Quotas([under_way], prices={}, clock=house.clock, shared=shared)
    house.pipeline = house._wired()
    assert [await code(house), await code(house)] == ["ok", "ok"]
    assert await code(house) == "rate_limited"
    shared.is_away = False
    while telling := [*house.quotas._telling]:
        await asyncio.wait(telling)
    assert (shared.used, shared.given_back) == (0, [-2])
    assert await code(house) == "ok"
