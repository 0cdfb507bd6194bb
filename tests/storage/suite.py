"""What every storage backend keeps to; each backend's test module takes these classes over.

A module that does has a fixture `stores`, which gives an object with `audit`, `pins`, `runs` and
`clients`.
"""

import asyncio
import unicodedata
from dataclasses import replace

import pytest

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.document import Document
from gateway.domain.flow import NOWHERE, RunHint, RunState, Source, Task
from gateway.domain.identity import AuthMethod, Client, ClientKind, Principal
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Confidentiality, Integrity, Label
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import (
    Disposition,
    Kind,
    Manifest,
    Pin,
    PinApproval,
    PinStatus,
    Profile,
    Sighting,
    Target,
    UpstreamId,
)
from gateway.errors import AuditUnavailable, Fault, Forbidden, PinMismatch
from gateway.storage.run_changes import MOST_OF_NEW_SERVERS, MOST_SOURCES
from gateway.storage.runs import RunLimits

NOW = 1_763_744_000.5
"""What the clock of the stores under test says."""

UNLIKE = [
    ("mail", "Mail"),
    ("caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")),
    ("a", "a\x00"),
    ("a\x00b", "a\x00c"),
    ("\ufb01", "fi"),
    ("a", "a "),
    ("\u0430", "a"),
    ("1", "01"),
]
"""Names that look alike and are not the same."""


def event(name, kind=RecordKind.SYSTEM, **fields):
    return AuditRecord(kind=kind, time=NOW, id=name, fields=fields)


def principal(subject="emma", issuer="https://gate", client="c_1"):
    return Principal(
        issuer=issuer,
        subject=subject,
        client_id=client,
        client_name=client,
        groups=frozenset(),
        scopes=frozenset(),
        token_id="t",
        expires_at=NOW,
        people=0,
    )


def target(name="send", server="mail", kind=Kind.TOOL):
    return Target(server=UpstreamId(server), kind=kind, name=name)


def manifest(what, text="Sends mail.", profile=Profile.LEGACY):
    return Manifest(
        target=what,
        profile=profile,
        definition=Document.of({"name": what.name, "description": text}),
        server_version="1.0",
        identity="https://mail.example:443/mcp",
    )


def approved(what, profile=Profile.LEGACY):
    seen = manifest(what, profile=profile)
    return Pin(
        target=what,
        profile=profile,
        status=PinStatus.APPROVED,
        observed=seen,
        approved=seen,
        first_seen=NOW - 1,
    )


def sighting(what, text="Sends mail.", *, disposition=Disposition.HOLD, profile=Profile.LEGACY):
    return Sighting(
        manifest=manifest(what, text, profile), disposition=disposition, seen_at=NOW - 1
    )


def pending(what, text="Sends mail.", profile=Profile.LEGACY):
    return Pin(
        target=what,
        profile=profile,
        status=PinStatus.PENDING,
        observed=manifest(what, text, profile),
        approved=None,
        first_seen=NOW - 1,
    )


def client(client_id="c_1", name="agent", **changes):
    made = Client(
        id=client_id,
        name=name,
        secret_hash="sha256:00",
        resources=frozenset({"/mcp/mail", "/mcp/web"}),
        scopes=frozenset({"tools:call"}),
        groups=frozenset({"robots"}),
        trusted_host=True,
        created_at=NOW,
        created_by="root",
    )
    return replace(made, **changes)


def everything(client_id, **changes):
    """A client with a value of its own in every field."""
    return client(
        client_id,
        **{
            "kind": ClientKind.DYNAMIC,
            "auth_methods": frozenset({AuthMethod.PRIVATE_KEY_JWT}),
            "jwks": '{"keys":[]}',
            "redirect_uris": ("https://b.test/2", "https://a.test/1"),
            "homepage": "https://a.test",
            "grants": ("refresh_token", "authorization_code"),
            "fresh_until": NOW + 300,
            **changes,
        },
    )


def label(integrity, confidentiality):
    return Label(integrity=integrity, confidentiality=confidentiality)


def source(tool="fetch", server="web", record="r3", of=STRICTEST_DEFAULT):
    return Source(server=server, tool=tool, record=record, label=of)


class AuditLogSuite:
    async def test_records_are_numbered_without_gaps_from_zero(self, stores):
        entries = [await stores.audit.append(event(f"e{n}")) for n in range(3)]
        assert [(entry.id, entry.leaf_index) for entry in entries] == [
            ("e0", 0),
            ("e1", 1),
            ("e2", 2),
        ]

    async def test_concurrent_records_get_a_place_each(self, stores):
        entries = await asyncio.gather(*(stores.audit.append(event(f"e{n}")) for n in range(200)))
        assert sorted(entry.leaf_index for entry in entries) == list(range(200))
        assert [entry.id for entry in entries] == [f"e{n}" for n in range(200)]

    async def test_an_id_is_recorded_once(self, stores):
        await stores.audit.append(event("e"))
        first, second, third = (
            asyncio.create_task(stores.audit.append(event(name))) for name in ("a", "e", "b")
        )
        with pytest.raises(AuditUnavailable):
            await second
        assert sorted([(await first).leaf_index, (await third).leaf_index]) == [1, 2]

    async def test_an_unknown_field_is_refused(self, stores):
        with pytest.raises(ValueError, match="not a field of an audit record: passwrd"):
            await stores.audit.append(event("e", passwrd="x"))

    async def test_odd_content_is_recorded(self, stores):
        entry = await stores.audit.append(
            event("e", target="\ud800\x00", arguments={"n": 10**30, "s": "\udfff"})
        )
        assert entry.leaf_index == 0


class PinStoreSuite:
    async def test_what_is_new_waits_for_a_person(self, stores):
        changed = await stores.pins.observe([sighting(target())])
        assert list(changed) == [pending(target())]
        assert stores.pins.find(target(), Profile.LEGACY) == pending(target())
        assert stores.pins.find(target(), Profile.MODERN) is None

    async def test_what_is_as_it_was_changes_nothing(self, stores):
        await stores.pins.observe([sighting(target())])
        assert list(await stores.pins.observe([sighting(target())])) == []

    async def test_a_sighting_meets_the_one_before_it_in_the_same_list(self, stores):
        changed = await stores.pins.observe(
            [sighting(target(), "one"), sighting(target(), "two"), sighting(target("other"))]
        )
        assert list(changed) == [pending(target(), "two"), pending(target("other"))]

    async def test_an_approval_is_of_what_was_looked_at(self, stores):
        await stores.pins.observe([sighting(target())])
        digest = str(manifest(target()).digest)
        pin = await stores.pins.approve(
            target(), Profile.LEGACY, expected=digest, by="emma", note="read it"
        )
        assert pin == replace(
            pending(target()),
            status=PinStatus.APPROVED,
            approved=manifest(target()),
            approved_by="emma",
            approved_at=NOW,
            note="read it",
            approvals=(
                PinApproval(
                    digest=digest,
                    by="emma",
                    at=NOW,
                    note="read it",
                    tier="new",
                    server_version=manifest(target()).server_version,
                ),
            ),
        )
        assert stores.pins.find(target(), Profile.LEGACY) == pin

    async def test_the_second_of_two_people_puts_it_in_force_until_the_earlier_end(self, stores):
        await stores.pins.observe([sighting(target())])
        digest = str(manifest(target()).digest)

        async def approve(person, expires_at):
            return await stores.pins.approve(
                target(),
                Profile.LEGACY,
                expected=digest,
                by=person,
                note="",
                user_id=f"u_{person}",
                people=2,
                counts={"u_ada", "u_bob"}.__contains__,
                expires_at=expires_at,
            )

        first = await approve("ada", NOW + 1)
        assert (first.status, [each.by for each in first.filed]) == (PinStatus.PENDING, ["ada"])
        with pytest.raises(Forbidden):
            await approve("ada", None)
        assert stores.pins.find(target(), Profile.LEGACY) == first
        second = await approve("bob", None)
        assert (second.status, second.filed, second.expires_at) == (
            PinStatus.APPROVED,
            (),
            NOW + 1,
        )
        assert [each.user_id for each in second.approvals] == ["u_ada", "u_bob"]

    async def test_who_may_not_approve_any_more_is_none_of_two(self, stores):
        await stores.pins.observe([sighting(target())])
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "note": "", "people": 2, "counts": {"u_bob"}.__contains__}
        await stores.pins.approve(target(), Profile.LEGACY, **given, by="ada", user_id="u_ada")
        found = await stores.pins.approve(
            target(), Profile.LEGACY, **given, by="bob", user_id="u_bob"
        )
        assert (found.status, [each.by for each in found.filed]) == (PinStatus.PENDING, ["bob"])
        assert stores.pins.find(target(), Profile.LEGACY) == found

    async def test_an_approval_that_has_run_out_is_not_found_in_force(self, stores):
        await stores.pins.observe([sighting(target())])
        digest = str(manifest(target()).digest)
        given = {"expected": digest, "by": "emma", "note": ""}
        await stores.pins.approve(target(), Profile.LEGACY, **given, expires_at=NOW)
        found = stores.pins.find(target(), Profile.LEGACY)
        assert (found.status, found.approved) == (PinStatus.PENDING, manifest(target()))
        assert [pin.status for pin in stores.pins.all()] == [PinStatus.PENDING]
        (drifted,) = await stores.pins.observe([sighting(target(), "two")])
        assert (drifted.status, drifted.approved) == (PinStatus.DRIFTED, manifest(target()))

    async def test_of_what_a_prompt_said_the_first_is_kept(self, stores):
        await stores.pins.observe([sighting(target())])
        await stores.pins.keep_body(target(), Profile.LEGACY, "sha256:1")
        kept = await stores.pins.keep_body(target(), Profile.LEGACY, "sha256:2")
        assert kept.body_digest == "sha256:1"
        assert stores.pins.find(target(), Profile.LEGACY) == kept

    async def test_what_changed_since_a_person_looked_is_not_approved(self, stores):
        await stores.pins.observe([sighting(target(), "one")])
        await stores.pins.observe([sighting(target(), "two")])
        with pytest.raises(PinMismatch):
            await stores.pins.approve(
                target(),
                Profile.LEGACY,
                expected=str(manifest(target(), "one").digest),
                by="emma",
                note="",
            )
        assert stores.pins.find(target(), Profile.LEGACY) == pending(target(), "two")

    async def test_a_change_after_approval_is_drift_that_keeps_what_was_approved(self, stores):
        await stores.pins.observe([sighting(target(), "one")])
        digest = str(manifest(target(), "one").digest)
        await stores.pins.approve(target(), Profile.LEGACY, expected=digest, by="emma", note="")
        (pin,) = await stores.pins.observe([sighting(target(), "two")])
        assert (pin.status, pin.observed, pin.approved) == (
            PinStatus.DRIFTED,
            manifest(target(), "two"),
            manifest(target(), "one"),
        )

    async def test_a_revoked_pin_stays_revoked(self, stores):
        await stores.pins.observe([sighting(target())])
        revoked = await stores.pins.revoke(target(), Profile.LEGACY, by="emma", note="leak")
        assert (revoked.status, revoked.note) == (PinStatus.REVOKED, "leak")
        await stores.pins.observe([sighting(target())])
        assert stores.pins.find(target(), Profile.LEGACY) == revoked

    async def test_no_pin_is_approved_or_revoked_that_is_not_there(self, stores):
        with pytest.raises(PinMismatch):
            await stores.pins.approve(
                target(), Profile.LEGACY, expected="sha256:00", by="emma", note=""
            )
        with pytest.raises(PinMismatch):
            await stores.pins.revoke(target(), Profile.LEGACY, by="emma", note="")

    async def test_all_are_listed_in_order_and_by_server(self, stores):
        shown = [target("b", "web"), target("b", "mail"), target("a", "web")]
        await stores.pins.observe([sighting(what) for what in shown])
        assert [pin.target for pin in stores.pins.all()] == [shown[1], shown[2], shown[0]]
        assert [pin.target for pin in stores.pins.all(UpstreamId("mail"))] == [shown[1]]

    @pytest.mark.parametrize(("one", "other"), UNLIKE)
    async def test_names_that_look_alike_are_two(self, stores, one, other):
        both = [target(one), target(other), target("x", one), target("x", other)]
        await stores.pins.observe([sighting(what) for what in both])
        digest = str(manifest(target(one)).digest)
        await stores.pins.approve(target(one), Profile.LEGACY, expected=digest, by="e", note="")
        assert [stores.pins.find(what, Profile.LEGACY).status for what in both] == [
            PinStatus.APPROVED,
            PinStatus.PENDING,
            PinStatus.PENDING,
            PinStatus.PENDING,
        ]

    async def test_a_definition_is_kept_letter_by_letter(self, stores):
        text = '{"name":"send","z":1.0,"a":"\\u00e9 \\u0000","description":"x"}'
        shown = Manifest(target=target(), profile=Profile.LEGACY, definition=Document(text))
        await stores.pins.observe([Sighting(manifest=shown, seen_at=NOW)])
        assert stores.pins.find(target(), Profile.LEGACY).observed.definition.text == text

    async def test_whose_a_definition_is_is_kept_with_it(self, stores):
        here = manifest(target())
        there = replace(here, identity="https://other.example:443/mcp")
        await stores.pins.observe([Sighting(manifest=here, seen_at=NOW)])
        expected = str(here.digest)
        await stores.pins.approve(target(), Profile.LEGACY, expected=expected, by="e", note="")
        await stores.pins.observe([Sighting(manifest=there, seen_at=NOW)])
        found = stores.pins.find(target(), Profile.LEGACY)
        assert (found.status, found.observed, found.approved) == (PinStatus.DRIFTED, there, here)


PRIVATE = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PRIVATE)
SECRET = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.SECRET)
UNTRUSTED = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PUBLIC)

NOTHING = RunHint()
TASK = Task(prompt="Answer Emma", tools=("send",))
RUN_LIMITS = RunLimits(idle_s=3600.0, most=3)


class Elapsed:
    """A clock of idle time that a test moves on."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def host(subject="emma", *, trusted=True):
    return replace(principal(subject), trusted_host=trusted)


def named(handle):
    return RunHint(handle=handle)


class RunStoreSuite:
    """Takes `stores.elapsed`, an `Elapsed`, and runs under `RUN_LIMITS`."""

    async def test_without_a_hint_it_is_the_run_of_the_grant_as_it_is(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        assert (run.label, run.sources, run.part_of, run.task) == (BOTTOM, (), None, None)
        assert (await stores.runs.of(principal(), NOTHING)) == run

    async def test_what_one_session_has_read_every_other_one_has(self, stores):
        first = await stores.runs.of(principal(), NOTHING)
        other = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(first.id, PRIVATE, source(of=PRIVATE))
        again = await stores.runs.of(principal(), NOTHING)
        assert (again.id, again.label, again.sources) == (other.id, PRIVATE, (source(of=PRIVATE),))
        assert (await stores.runs.of(principal("noah"), NOTHING)).label == BOTTOM

    async def test_a_handle_that_nobody_gave_is_the_run_of_the_grant_read_strictly(self, stores):
        grant = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(grant.id, SECRET, None)
        made_up = RunHint(handle="invented")
        run = await stores.runs.of(host(), made_up)
        assert (run.id, run.label) == (grant.id, SECRET.join(STRICTEST_DEFAULT))

    async def test_a_raised_label_stays_raised(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, SECRET, None)
        after = await stores.runs.raise_label(run.id, UNTRUSTED, None)
        assert after.label == label(Integrity.UNTRUSTED, Confidentiality.SECRET)
        assert await stores.runs.raise_label(run.id, BOTTOM, None) == after
        assert await stores.runs.of(principal(), NOTHING) == after

    async def test_concurrent_raises_are_joined(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        labels = [label(i, c) for i in Integrity for c in Confidentiality]
        await asyncio.gather(
            *(
                stores.runs.raise_label(run.id, each, source(f"t{n}", of=each))
                for n, each in enumerate(labels)
            )
        )
        after = await stores.runs.of(principal(), NOTHING)
        assert after.label == label(Integrity.UNTRUSTED, Confidentiality.SECRET)
        assert {each.tool for each in after.sources} == {f"t{n}" for n in range(8)}

    async def test_a_run_that_is_not_there_is_not_raised(self, stores):
        with pytest.raises(Fault):
            await stores.runs.raise_label("r_none", SECRET, None)

    async def test_a_tool_is_one_source_with_the_join_of_its_labels(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        trusted = label(Integrity.TRUSTED, Confidentiality.INTERNAL)
        await stores.runs.raise_label(run.id, trusted, source(record="r1", of=trusted))
        await stores.runs.raise_label(run.id, trusted, source(record="r2", of=trusted))
        await stores.runs.raise_label(run.id, trusted, source("other", record="r3", of=trusted))
        after = await stores.runs.raise_label(run.id, UNTRUSTED, source(record="r4", of=UNTRUSTED))
        joined = label(Integrity.UNTRUSTED, Confidentiality.INTERNAL)
        assert after.sources == (
            source(record="r4", of=joined),
            source("other", record="r3", of=trusted),
        )

    async def test_sources_are_bounded_and_the_label_is_not(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        for n in range(MOST_SOURCES):
            await stores.runs.raise_label(run.id, BOTTOM, source(f"t{n}", of=BOTTOM))
        await stores.runs.raise_label(run.id, BOTTOM, source("one too many", of=BOTTOM))
        await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source("what raises it"))
        after = await stores.runs.raise_label(run.id, STRICTEST_DEFAULT, source("as much again"))
        assert after.label == STRICTEST_DEFAULT
        listed = [f"t{n}" for n in range(MOST_SOURCES)]
        assert [each.tool for each in after.sources] == [*listed, "what raises it"]

    async def test_no_server_is_left_out_for_the_many_tools_of_another(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        for n in range(MOST_SOURCES):
            await stores.runs.raise_label(run.id, BOTTOM, source(f"t{n}", of=BOTTOM))
        last = run
        for n in range(MOST_OF_NEW_SERVERS + 1):
            new = Source(server=f"s{n}", tool="read", record="r7", label=BOTTOM)
            last = await stores.runs.raise_label(run.id, BOTTOM, new)
        again = Source(server="s0", tool="more", record="r8", label=BOTTOM)
        last = await stores.runs.raise_label(run.id, BOTTOM, again)
        listed = [each.server for each in last.sources[MOST_SOURCES:]]
        assert listed == [f"s{n}" for n in range(MOST_OF_NEW_SERVERS)]

    # Runs that a trusted host begins.

    async def test_a_run_that_is_begun_has_seen_nothing_and_has_its_task(self, stores):
        grant = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(grant.id, SECRET, None)
        handle, run = await stores.runs.begin(host(), TASK)
        assert (run.label, run.sources, run.part_of, run.task) == (BOTTOM, (), grant.id, TASK)
        assert await stores.runs.of(host(), named(handle)) == run
        assert await stores.runs.of(host(), RunHint(handle=handle)) == run
        assert len(handle) == 22

    async def test_handles_differ_and_name_nothing_without_the_key(self, stores):
        begun = [await stores.runs.begin(host(), None) for _ in range(2)]
        assert len({handle for handle, _ in begun}) == len({run.id for _, run in begun}) == 2
        assert not any(handle in run.id or run.id in handle for handle, run in begun)

    async def test_what_a_begun_run_sees_its_grant_has_seen_and_no_other_begun_run(self, stores):
        one, first = await stores.runs.begin(host(), TASK)
        other, second = await stores.runs.begin(host(), None)
        after = await stores.runs.raise_label(first.id, PRIVATE, source(of=PRIVATE))
        assert (after.label, after.task) == (PRIVATE, TASK)
        assert await stores.runs.of(host(), named(one)) == after
        assert await stores.runs.of(host(), named(other)) == second
        grant = await stores.runs.of(host(), NOTHING)
        assert (grant.label, grant.sources) == (PRIVATE, (source(of=PRIVATE),))

    async def test_a_handle_is_worth_nothing_to_anybody_else(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        for other in (host("noah"), replace(host(), client_id="c_2"), host("emma ")):
            found = await stores.runs.of(other, named(handle))
            assert (found.label, found.id != run.id) == (STRICTEST_DEFAULT, True)
        assert await stores.runs.of(host(), RunHint(handle=handle)) == run

    async def test_a_host_that_is_trusted_no_more_has_no_runs_of_its_own_for_good(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        for trusted in (False, True):
            found = await stores.runs.of(host(trusted=trusted), named(handle))
            assert (found.label, found.id) == (STRICTEST_DEFAULT, run.part_of)

    async def test_a_program_of_a_hosts_is_in_the_run_that_its_host_puts_it_in(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        assert await stores.runs.of(program, named(handle)) == run
        await stores.runs.raise_label(run.id, PRIVATE, None)
        assert (await stores.runs.of(host(), named(handle))).label == PRIVATE

    async def test_what_a_program_reads_without_a_run_every_run_of_its_hosts_has_seen(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        await stores.runs.begin(host("noah"), None)
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        whole = await stores.runs.of(program, NOTHING)
        assert whole.id == run.part_of
        # Also where the whole run has seen as much before.
        await stores.runs.raise_label(whole.id, PRIVATE, source(of=PRIVATE))
        assert (await stores.runs.of(host(), named(handle))).label == BOTTOM
        await stores.runs.raise_label(whole.id, PRIVATE, source(of=PRIVATE), program.script)
        for caller in (host(), program):
            found = await stores.runs.of(caller, named(handle))
            assert (found.id, found.label, found.sources) == (
                run.id,
                PRIVATE,
                (source(of=PRIVATE),),
            )
            assert found.roamed  # it is remembered in the whole run
        assert not (await stores.runs.of(host(), NOTHING)).roamed
        assert (await stores.runs.of(host("noah"), NOTHING)).label == BOTTOM

    async def test_a_program_takes_what_it_has_read_into_whichever_run_it_calls_in(self, stores):
        one, first = await stores.runs.begin(host(), None)
        other, second = await stores.runs.begin(host(), None)
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        await stores.runs.raise_label(first.id, PRIVATE, source(), program.script)
        assert (await stores.runs.of(host(), named(other))).label == BOTTOM
        another = replace(program, script=ScriptId("s_2"))
        assert (await stores.runs.of(another, named(other))).label == BOTTOM
        found = await stores.runs.of(program, named(other))
        assert (found.id, found.label) == (second.id, PRIVATE)
        assert (await stores.runs.of(host(), named(other))).label == PRIVATE
        assert (await stores.runs.of(host(), named(one))).id == first.id

    async def test_a_run_is_known_to_have_read_what_its_program_had_read_before(self, stores):
        program = replace(host(trusted=False), script=ScriptId("s_1"))
        whole = await stores.runs.of(program, NOTHING)
        read = [source(tool, of=label) for tool, label in (("a", UNTRUSTED), ("b", SECRET))]
        for one in read:
            await stores.runs.raise_label(whole.id, one.label, one, program.script)
        handle, run = await stores.runs.begin(host(), None)
        assert not run.has_read
        found = await stores.runs.of(program, named(handle))
        assert (found.id, found.label) == (run.id, UNTRUSTED.join(SECRET))
        assert found.sources == tuple(read)
        assert found.has_read

    async def begun_program(self, stores):
        """Have a program begun, and return its calls' principal."""
        return replace(host(trusted=False), script=ScriptId("s_1"))

    @pytest.mark.parametrize("hint", [NOTHING, named("made up"), None], ids=str)
    async def test_a_program_sheds_nothing_by_the_end_of_the_run_that_it_read_in(
        self, stores, hint
    ):
        program = await self.begun_program(stores)
        whole = await stores.runs.of(program, NOTHING)
        await stores.runs.raise_label(whole.id, PRIVATE, source(of=PRIVATE), program.script)
        await stores.runs.end(whole.id)
        assert (await stores.runs.of(host(), NOTHING)).label == BOTTOM
        if hint is None:
            hint = named((await stores.runs.begin(host(), None))[0])
        found = await stores.runs.of(program, hint)
        secrecy = found.label.confidentiality
        assert (found.id != whole.id, secrecy) == (True, Confidentiality.PRIVATE)
        assert (found.has_read, found.roamed) == (True, True)
        after = await stores.runs.of(host(), NOTHING)
        assert (after.label, after.has_read, after.roamed) == (PRIVATE, True, True)

    async def test_what_a_program_has_read_in_one_run_is_not_remembered_in_another(self, stores):
        program = await self.begun_program(stores)
        (one, first), (other, second) = [await stores.runs.begin(host(), None) for _ in range(2)]
        for run in (first, second):
            await stores.runs.raise_label(run.id, PRIVATE, source(of=PRIVATE))
        await stores.runs.raise_label(first.id, PRIVATE, source(of=PRIVATE), program.script)
        assert not (await stores.runs.of(program, named(one))).roamed
        assert (await stores.runs.of(program, named(other))).roamed
        await stores.runs.raise_label(second.id, PRIVATE, source(of=PRIVATE), program.script)
        assert (await stores.runs.of(program, named(one))).roamed
        # Nor in the one in which it has read last.
        last, third = await stores.runs.begin(host(), None)
        await stores.runs.raise_label(third.id, PRIVATE, source(of=PRIVATE), program.script)
        assert (await stores.runs.of(program, named(last))).roamed

    async def test_one_run_too_many_ends_the_one_that_was_idle_longest(self, stores):
        begun = [await stores.runs.begin(host(), None) for _ in range(RUN_LIMITS.most)]
        await stores.runs.of(host(), named(begun[0][0]))
        await stores.runs.begin(host("noah"), None)
        handle, _ = await stores.runs.begin(host(), None)
        live = [
            (await stores.runs.of(host(), named(each))).part_of is not None
            for each in (*(each for each, _ in begun), handle)
        ]
        assert live == [True, False, True, True]

    # How runs end.

    async def test_an_ended_run_is_followed_by_one_that_has_seen_nothing(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, SECRET, source())
        ended = await stores.runs.end(run.id)
        assert ended is not None
        assert (ended.id, ended.label) == (run.id, SECRET)
        after = await stores.runs.of(principal(), NOTHING)
        assert (after.id != run.id, after.label, after.sources) == (True, BOTTOM, ())
        assert await stores.runs.end(run.id) is None
        assert await stores.runs.end("r_none") is None

    async def test_a_begun_run_that_ended_is_the_grants_again_read_strictly(self, stores):
        handle, run = await stores.runs.begin(host(), TASK)
        await stores.runs.end(run.id)
        found = await stores.runs.of(host(), named(handle))
        assert (found.id, found.label, found.task) == (run.part_of, STRICTEST_DEFAULT, None)

    async def test_with_the_run_of_a_grant_all_end_that_were_begun_in_it(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        await stores.runs.end(run.part_of)
        found = await stores.runs.of(host(), named(handle))
        assert found.part_of is None
        assert found.id not in {run.id, run.part_of}

    async def test_what_comes_after_the_end_is_seen_by_whoever_calls_next(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.end(run.id)
        raised = await stores.runs.raise_label(run.id, SECRET, None)
        after = await stores.runs.of(principal(), NOTHING)
        assert (after.id != run.id, after.label) == (True, SECRET)
        # And remembered there.
        assert (raised, after.roamed) == (after, False)
        again = await stores.runs.raise_label(run.id, SECRET, None)
        assert (again.id, again.roamed) == (after.id, False)

    # Where it is remembered what a run has read.

    async def test_what_a_run_reads_is_remembered_in_it_and_in_its_whole_run(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        after = await stores.runs.raise_label(run.id, SECRET, source(of=SECRET))
        await stores.runs.raise_label(run.part_of, PRIVATE, source(of=PRIVATE))
        found = await stores.runs.of(host(), named(handle))
        whole = await stores.runs.of(host(), NOTHING)
        assert [one.roamed for one in (after, found, whole)] == [False] * 3

    async def test_a_run_is_known_to_have_read_what_nobody_remembers(self, stores):
        handle, run = await stores.runs.begin(host(), TASK)
        await stores.runs.raise_label(run.id, SECRET, source(of=SECRET))
        # Also where that changes nothing else.
        after = await stores.runs.raise_label(run.id, SECRET, source(of=SECRET), heard=NOWHERE)
        await stores.runs.raise_label(run.id, SECRET, source("other", of=SECRET))
        found = await stores.runs.of(host(), named(handle))
        assert [one.roamed for one in (after, found)] == [True, True]
        assert found.task == TASK

    async def test_what_one_run_has_heard_another_that_is_raised_has_not(self, stores):
        (_, one), (handle, _) = [await stores.runs.begin(host(), None) for _ in range(2)]
        other = await stores.runs.of(host(), named(handle))
        await stores.runs.raise_label(one.id, PRIVATE, source(of=PRIVATE), heard=other)
        whole = await stores.runs.of(host(), NOTHING)
        assert [stores.runs.find(name).run.roamed for name in (one.id, other.id, whole.id)] == [
            True,
            False,
            False,
        ]

    async def test_of_what_anybody_may_know_there_is_nothing_to_remember(self, stores):
        run = await stores.runs.of(host(), NOTHING)
        after = await stores.runs.raise_label(run.id, BOTTOM, source(of=BOTTOM), heard=NOWHERE)
        assert not after.roamed

    async def test_idle_time_ends_runs_and_nothing_shorter_does(self, stores):
        handle, begun = await stores.runs.begin(host(), None)
        run = await stores.runs.of(host(), NOTHING)
        await stores.runs.raise_label(begun.id, SECRET, None)
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        assert (await stores.runs.of(host(), named(handle))).label == SECRET
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        assert (await stores.runs.of(host(), NOTHING)).id == run.id
        stores.elapsed.now += RUN_LIMITS.idle_s
        after = await stores.runs.of(host(), NOTHING)
        assert (after.id != run.id, after.label) == (True, BOTTOM)
        assert (await stores.runs.of(host(), named(handle))).id == after.id

    async def test_a_run_is_begun_under_a_handle_once_and_never_again(self, stores):
        handle, run = await stores.runs.begin(host(), None, "session")
        assert (handle, run.label) == ("session", BOTTOM)
        assert (await stores.runs.of(host(), named("session"))).id == run.id
        with pytest.raises(Fault):
            await stores.runs.begin(host(), None, "session")
        await stores.runs.end(run.id)
        with pytest.raises(Fault):
            await stores.runs.begin(host(), None, "session")
        assert (await stores.runs.of(host(), named("session"))).label == STRICTEST_DEFAULT
        _, others = await stores.runs.begin(host("noah"), None, "session")
        assert others.id != run.id

    async def test_a_begun_run_that_was_idle_has_ended_for_good(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        await stores.runs.of(host(), NOTHING)
        stores.elapsed.now += 1
        assert (await stores.runs.of(host(), named(handle))).id == run.part_of
        stores.elapsed.now -= 1
        assert (await stores.runs.of(host(), named(handle))).label == STRICTEST_DEFAULT

    async def test_calls_that_end_an_idle_run_at_once_are_in_one_run(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        stores.elapsed.now += RUN_LIMITS.idle_s
        found = await asyncio.gather(*(stores.runs.of(principal(), NOTHING) for _ in range(5)))
        after = await stores.runs.of(principal(), NOTHING)
        assert {each.id for each in found} <= {run.id, after.id}
        assert after.id != run.id

    async def test_runs_of_whoever_does_not_come_back_end_when_another_begins(self, stores):
        run = await stores.runs.of(principal("emma"), NOTHING)
        stores.elapsed.now += RUN_LIMITS.idle_s
        assert not stores.runs.find(run.id).live
        await stores.runs.of(principal("noah"), NOTHING)
        assert [each.live for each in stores.runs.all()] == [False, True]
        assert await stores.runs.end(run.id) is None

    async def test_time_in_which_a_server_has_yet_to_answer_is_not_idle(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        stores.elapsed.now += RUN_LIMITS.idle_s + 1
        raised = await stores.runs.raise_label(run.id, SECRET, source())
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        after = await stores.runs.of(principal(), NOTHING)
        assert (after.id, after.label) == (raised.id, SECRET)

    async def test_so_is_that_of_a_begun_run(self, stores):
        handle, run = await stores.runs.begin(host(), None)
        for _ in range(2):  # the second time it has nothing to add
            stores.elapsed.now += RUN_LIMITS.idle_s - 1
            await stores.runs.raise_label(run.id, SECRET, source())
        stores.elapsed.now += RUN_LIMITS.idle_s - 1
        found = await stores.runs.of(host(), named(handle))
        assert (found.id, found.label) == (run.id, SECRET)

    async def test_what_came_after_its_run_had_ended_is_not_forgotten_at_the_next_call(
        self, stores
    ):
        run = await stores.runs.of(principal("emma"), NOTHING)
        stores.elapsed.now += RUN_LIMITS.idle_s
        await stores.runs.of(principal("noah"), NOTHING)
        assert not stores.runs.find(run.id).live
        await stores.runs.raise_label(run.id, SECRET, source())
        assert (await stores.runs.of(principal("emma"), NOTHING)).label == SECRET

    # Letting a client in again.

    @pytest.mark.parametrize(
        "again",
        [
            {"token_id": "another"},
            {"scopes": frozenset({"tools:call", "tools:write"})},
            {"expires_at": 2e9, "groups": frozenset({"security"})},
            {"trusted_host": True},
            {"script": ScriptId("s_1")},
        ],
        ids=["token", "scope", "sign-in", "marked as trusted", "program"],
    )
    async def test_a_new_grant_joins_the_live_run(self, stores, again):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, SECRET, source())
        for hint in (NOTHING, named("made up")):
            found = await stores.runs.of(replace(principal(), **again), hint)
            assert (found.id, found.label.confidentiality) == (run.id, Confidentiality.SECRET)
        assert [each.run.id for each in stores.runs.all()] == [run.id]

    async def test_what_registers_itself_for_each_endpoint_is_one_program(self, stores):
        one = replace(host(), client_id="c_8", program="Desktop")
        other = replace(host(), client_id="c_9", program="Desktop")
        run = await stores.runs.of(one, NOTHING)
        await stores.runs.raise_label(run.id, SECRET, None)
        assert await stores.runs.of(other, NOTHING) == replace(run, label=SECRET)

    async def test_a_program_of_another_name_or_person_has_runs_of_its_own(self, stores):
        mine = replace(host(), program="Desktop")
        run = await stores.runs.of(mine, NOTHING)
        for other in (
            replace(mine, program="Editor"),
            replace(mine, program=""),
            replace(mine, subject="sam"),
            replace(mine, issuer="https://other"),
            replace(mine, client_id="Desktop", program=""),
        ):
            assert (await stores.runs.of(other, NOTHING)).id != run.id

    async def test_a_client_is_told_from_others_as_its_principal_is(self, stores):
        for who in (host(), replace(host(), client_id="c_8", program="Desktop")):
            assert stores.runs.whole(who.actor) is None
            run = await stores.runs.of(who, NOTHING)
            assert stores.runs.whole(who.actor) == run
            after = await stores.runs.raise_label(run.id, SECRET, None)
            assert stores.runs.whole(who.actor) == after
            await stores.runs.end(run.id)
            assert stores.runs.whole(who.actor) is None

    async def test_whose_a_run_is_is_known_and_nobody_knows_it_of_a_run_that_is_not(self, stores):
        _, begun = await stores.runs.begin(host(), None)
        for run in (begun.id, begun.part_of):
            assert stores.runs.acts_for(run, ["https://gate|noah", "https://gate|emma"])
            assert not stores.runs.acts_for(run, ["https://gate|noah", "emma"])
            assert not stores.runs.acts_for(run, [])
        assert stores.runs.acts_for("r_none", [])

    # What a person does.

    async def test_a_person_lowers_the_label_that_they_saw(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, SECRET, source())
        look = await stores.runs.look_at(run.id)
        lowered = await stores.runs.lower_label(run.id, SECRET, PRIVATE, look=look)
        assert lowered == await stores.runs.of(principal(), NOTHING)
        assert (lowered.label, lowered.sources) == (PRIVATE, (source(),))

    async def test_a_label_that_was_raised_meanwhile_is_not_lowered(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, PRIVATE, None)
        look = await stores.runs.look_at(run.id)
        await stores.runs.raise_label(run.id, SECRET, None)
        for seen, at in ((PRIVATE, look), (PRIVATE, await stores.runs.look_at(run.id))):
            assert await stores.runs.lower_label(run.id, seen, BOTTOM, look=at) is None
        assert (await stores.runs.of(principal(), NOTHING)).label == SECRET

    @pytest.mark.parametrize(
        ("tool", "of"),
        [("search", PRIVATE), ("fetch", PRIVATE), ("fetch", BOTTOM), (None, BOTTOM)],
        ids=["another tool", "the same again", "less", "of no source"],
    )
    async def test_nobody_vouches_for_what_came_after_they_looked(self, stores, tool, of):
        """Also where it changes neither the label nor what the run is known to have read."""
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, PRIVATE, source(of=PRIVATE))
        look = await stores.runs.look_at(run.id)
        await stores.runs.raise_label(run.id, of, None if tool is None else source(tool, of=of))
        assert await stores.runs.lower_label(run.id, PRIVATE, BOTTOM, look=look) is None
        assert (await stores.runs.of(principal(), NOTHING)).label == PRIVATE
        look = await stores.runs.look_at(run.id)
        assert await stores.runs.lower_label(run.id, PRIVATE, BOTTOM, look=look) is not None

    async def test_what_a_begun_run_reads_comes_into_the_whole_run_and_into_no_other(self, stores):
        (_, one), (_, other) = [await stores.runs.begin(host(), None) for _ in range(2)]
        for run in (one, other):
            await stores.runs.raise_label(run.id, SECRET, source())
        looks = {run: await stores.runs.look_at(run) for run in (one.id, other.id, one.part_of)}
        await stores.runs.raise_label(one.id, SECRET, source())
        lowered = {
            run: await stores.runs.lower_label(run, SECRET, PRIVATE, look=look) is not None
            for run, look in looks.items()
        }
        assert lowered == {one.id: False, other.id: True, one.part_of: False}

    async def test_what_a_program_reads_in_the_whole_run_comes_into_each_begun_one(self, stores):
        _, run = await stores.runs.begin(host(), None)
        await stores.runs.raise_label(run.id, SECRET, source())
        look = await stores.runs.look_at(run.id)
        await stores.runs.raise_label(run.part_of, SECRET, source(), ScriptId("s_1"))
        assert await stores.runs.lower_label(run.id, SECRET, PRIVATE, look=look) is None

    async def test_two_who_have_looked_lower_a_label_once(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        await stores.runs.raise_label(run.id, SECRET, source())
        looks = [await stores.runs.look_at(run.id) for _ in range(2)]
        found = [await stores.runs.lower_label(run.id, SECRET, PRIVATE, look=at) for at in looks]
        assert [one is not None for one in found] == [True, False]
        assert await stores.runs.lower_label(run.id, PRIVATE, BOTTOM, look=looks[0]) is None

    async def test_who_has_not_looked_lowers_nothing(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        run = await stores.runs.raise_label(run.id, SECRET, source())
        guesses = ("", f"{run.version}.", f"{run.version}.None")
        for guess in guesses:
            assert await stores.runs.lower_label(run.id, SECRET, BOTTOM, look=guess) is None
        await stores.runs.look_at(run.id)
        for guess in guesses:
            assert await stores.runs.lower_label(run.id, SECRET, BOTTOM, look=guess) is None

    async def test_no_label_of_a_run_that_ended_or_is_not_there_is_lowered(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        look = await stores.runs.look_at(run.id)
        await stores.runs.end(run.id)
        assert await stores.runs.lower_label(run.id, BOTTOM, BOTTOM, look=look) is None
        assert await stores.runs.lower_label("r_none", BOTTOM, BOTTOM, look=look) is None
        for name in (run.id, "r_none", "\0"):
            assert await stores.runs.look_at(name) == ""

    async def test_lowering_a_begun_run_leaves_its_grants_and_its_task(self, stores):
        handle, run = await stores.runs.begin(host(), TASK)
        await stores.runs.raise_label(run.id, SECRET, None)
        look = await stores.runs.look_at(run.id)
        await stores.runs.lower_label(run.id, SECRET, BOTTOM, look=look)
        assert await stores.runs.of(host(), named(handle)) == run
        assert (await stores.runs.of(host(), NOTHING)).label == SECRET

    async def test_what_a_begun_run_reads_again_raises_a_grant_that_was_lowered(self, stores):
        _, run = await stores.runs.begin(host(), None)
        await stores.runs.raise_label(run.id, SECRET, None)
        look = await stores.runs.look_at(run.part_of)
        await stores.runs.lower_label(run.part_of, SECRET, BOTTOM, look=look)
        await stores.runs.raise_label(run.id, SECRET, None)
        assert (await stores.runs.of(host(), NOTHING)).label == SECRET

    async def test_runs_are_told_with_how_long_they_were_idle(self, stores):
        _, run = await stores.runs.begin(host(), TASK)
        stores.elapsed.now += 5
        grant = await stores.runs.of(host(), NOTHING)
        told = [RunState(run=grant, live=True, idle_s=0.0), RunState(run=run, live=True, idle_s=5)]
        assert stores.runs.all() == told
        assert stores.runs.find(run.id) == told[1]
        await stores.runs.end(run.id)
        ended = replace(run, task=None)
        assert (stores.runs.find(run.id).run, stores.runs.find(run.id).live) == (ended, False)
        assert stores.runs.find("r_none") is None

    # Names.

    @pytest.mark.parametrize(("one", "other"), UNLIKE)
    async def test_people_that_look_alike_have_their_own_runs(self, stores, one, other):
        runs = [
            await stores.runs.of(host(one), NOTHING),
            await stores.runs.of(host(other), NOTHING),
        ]
        assert len({run.id for run in runs}) == 2

    async def test_a_runs_name_tells_nothing(self, stores):
        run = await stores.runs.of(principal(), NOTHING)
        assert run.id.startswith("r_")
        assert len(run.id) == 34
        assert "emma" not in run.id


class ClientStoreSuite:
    def test_a_client_is_found_whole(self, stores):
        stores.clients.add(client())
        stores.clients.add(everything("c_2"))
        assert stores.clients.find("c_1") == client()
        assert stores.clients.find("c_2") == everything("c_2")
        assert stores.clients.find("C_1") is None

    @pytest.mark.parametrize("taken", [client("c_1", "other"), client("c_2", "agent")])
    def test_an_id_and_a_registered_name_are_taken_once(self, stores, taken):
        stores.clients.add(client())
        with pytest.raises(ValueError, match="of that id or name already"):
            stores.clients.add(taken)
        assert list(stores.clients.all()) == [client()]

    def test_what_registers_itself_may_have_anybodys_name_but_not_their_id(self, stores):
        stores.clients.add(client())
        stores.clients.add(client("c_2", kind=ClientKind.DYNAMIC))
        stores.clients.add(client("c_3", kind=ClientKind.DYNAMIC))
        with pytest.raises(ValueError, match="of that id or name already"):
            stores.clients.add(client("c_1", kind=ClientKind.DYNAMIC))
        assert [found.id for found in stores.clients.all()] == ["c_1", "c_2", "c_3"]

    def test_a_document_is_replaced_by_what_it_says_now(self, stores):
        before = everything("https://a.test/c", kind=ClientKind.DOCUMENT)
        now = replace(before, name="new", redirect_uris=("https://a.test/new",), fresh_until=NOW)
        stores.clients.refresh(before)
        assert stores.clients.find(before.id) == before
        stores.clients.refresh(now)
        assert list(stores.clients.all()) == [now]

    @pytest.mark.parametrize("kind", [ClientKind.REGISTERED, ClientKind.DYNAMIC])
    def test_a_document_replaces_no_client_of_another_kind(self, stores, kind):
        stores.clients.add(client("https://a.test/c", kind=kind))
        document = everything("https://a.test/c", kind=ClientKind.DOCUMENT)
        with pytest.raises(ValueError, match="of that id or name already"):
            stores.clients.refresh(document)
        with pytest.raises(ValueError, match=r"already|only a client that is a document"):
            stores.clients.refresh(replace(document, kind=kind))
        assert list(stores.clients.all()) == [client("https://a.test/c", kind=kind)]

    @pytest.mark.parametrize("kind", [ClientKind.REGISTERED, ClientKind.DYNAMIC])
    def test_refreshing_makes_nothing_but_documents(self, stores, kind):
        document = client("https://a.test/c", kind=ClientKind.DOCUMENT)
        stores.clients.refresh(document)
        for other in (replace(document, kind=kind), client("c_2", kind=kind)):
            with pytest.raises(ValueError, match=r"already|only a client that is a document"):
                stores.clients.refresh(other)
        assert list(stores.clients.all()) == [document]

    def test_a_removed_client_is_gone_and_its_name_is_free(self, stores):
        stores.clients.add(client())
        assert stores.clients.remove("c_1") == client()
        assert stores.clients.remove("c_1") is None
        assert stores.clients.find("c_1") is None
        stores.clients.add(client("c_2"))

    def test_what_a_removed_client_registered_is_told_of_whoever_registered_that(self, stores):
        stores.clients.add(client("c_1", "maker", created_by="user:emma"))
        stores.clients.add(client("c_2", "made", created_by="client:c_1"))
        stores.clients.add(client("c_3", "made by that", created_by="client:c_2"))
        stores.clients.add(client("c_4", "another's", created_by="client:c_11"))
        stores.clients.remove("c_1")
        by = {each.id: each.created_by for each in stores.clients.all()}
        assert by == {"c_2": "user:emma", "c_3": "client:c_2", "c_4": "client:c_11"}
        stores.clients.remove("c_2")
        made = stores.clients.find("c_3")
        assert made == client("c_3", "made by that", created_by="user:emma")

    def test_an_old_client_that_nobody_uses_is_forgotten_unless_it_was_registered(self, stores):
        stores.clients.add(client("c_1", "kept"))
        for kind in (ClientKind.DYNAMIC, ClientKind.DOCUMENT):
            stores.clients.add(client(f"old {kind}", kind=kind))
            stores.clients.add(client(f"new {kind}", kind=kind, created_at=NOW + 1))
        assert stores.clients.remove_unused(NOW + 1) == 2
        assert {found.id for found in stores.clients.all()} == {
            "c_1",
            "new dynamic",
            "new document",
        }

    @pytest.mark.parametrize(("one", "other"), UNLIKE)
    def test_ids_and_names_that_look_alike_are_two(self, stores, one, other):
        stores.clients.add(client(one, one))
        stores.clients.add(client(other, other))
        assert stores.clients.find(one) == client(one, one)
        assert stores.clients.find(other) == client(other, other)
