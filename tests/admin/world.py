"""All use cases over real stores in memory, or over a real data directory."""

import itertools
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.admin import Admin
from gateway.admin.access import AccessDesk
from gateway.admin.alerts import AlertDesk
from gateway.admin.approvals import ApprovalDesk
from gateway.admin.ask import AskDesk
from gateway.admin.audit import AuditDesk
from gateway.admin.clients import ClientDesk
from gateway.admin.counts import CountDesk
from gateway.admin.discovery import DiscoveryDesk
from gateway.admin.exporting import ExportDesk
from gateway.admin.journal import Journal
from gateway.admin.keeping import KeepingDesk
from gateway.admin.labels import LabelDesk
from gateway.admin.lock import LockSigner
from gateway.admin.operations import KeyDesk, ServerDesk
from gateway.admin.people import People
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.pins import PinDesk, Reviewed
from gateway.admin.policy import PolicyDesk
from gateway.admin.replay import ReplayDesk
from gateway.admin.runs import RunDesk
from gateway.admin.scripts import ScriptDesk
from gateway.admin.standing import StandingDesk
from gateway.admin.stop import StopDesk
from gateway.admin.usage import UsageDesk
from gateway.admin.users import UserDesk
from gateway.admin.verifying import VerifyDesk
from gateway.domain.approvals import ApprovalRules
from gateway.domain.decisions import Decision, Reason, Verdict
from gateway.domain.descriptions import NO_GUIDANCE, Guidance
from gateway.domain.document import Document
from gateway.domain.flow import Run, RunId, RunState, Source
from gateway.domain.identity import Client, Credential, Principal, User
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT, Label, ServerRule
from gateway.domain.quotas import Count, Per, Quota
from gateway.domain.standing import StandingAnswer
from gateway.domain.tools import Kind, Manifest, Profile, Sighting, Target, UpstreamId
from gateway.errors import BadCommand, GatewayError, NotFound, PolicyUnavailable, Unauthenticated
from gateway.oauth.clients import new_client
from gateway.oauth.resources import Resources
from gateway.storage.bundles import BundleReader
from gateway.storage.claims import ProcessClaims
from gateway.storage.connection import open_reader
from gateway.storage.database import DATABASE
from gateway.storage.identity.store import IdentityStores
from gateway.storage.stop import Stop
from gateway.storage.store import Store
from gateway.storage.verify import verify
from gateway.wiring.indexing import archive_of
from tests.storage.memory import MemoryAuditLog, MemoryPinStore
from tests.storage.memory_calls import MemoryScriptStore
from tests.storage.memory_people import (
    MemoryApprovalStore,
    MemoryClientStore,
    MemoryStandingAnswers,
)

NOW = 1_800_000_000.0
NOW_TEXT = "2027-01-15T08:00:00.000Z"

EMMA = Person(name="os:emma", roles=EVERY_ROLE)
APPROVER = Person(name="os:ada", roles=frozenset({Role.APPROVER}))
ADMIN = Person(name="os:root", roles=frozenset({Role.ADMIN}))
AUDITOR = Person(name="os:otto", roles=frozenset({Role.AUDITOR}))
USER = Person(name="os:uma", roles=frozenset({Role.USER}))
STRANGER = Person(name="os:sam", roles=frozenset())

NO_RULE = ServerRule(tools={})
NUMBERS = itertools.count(1)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
SIGNER = LockSigner("douane/here", KEY)
QUOTAS = (Quota(name="mails", count=Count.CALLS, most=200, per=Per.DAY),)
URL = "http://127.0.0.1:8080"
RESOURCES = Resources.of(public_url=URL, servers=["mail"])
CORE = ("mail__search", "mail__gone")
ROLES = {"users": "user", "security": "approver", "admins": "admin", "auditors": "auditor"}

RUNS = [
    Run(id=RunId("r_old"), label=BOTTOM),
    Run(
        id=RunId("r_new"),
        label=STRICTEST_DEFAULT,
        sources=(Source(server="web", tool="fetch", record="r7", label=STRICTEST_DEFAULT),),
    ),
]


def clock() -> float:
    return NOW


def manifest(
    name: str = "send",
    text: str = "Sends mail.",
    *,
    server: str = "mail",
    kind: Kind = Kind.TOOL,
    profile: Profile = Profile.MODERN,
    version: str = "1.0",
    members: Mapping[str, Any] | None = None,
) -> Manifest:
    return Manifest(
        target=Target(server=UpstreamId(server), kind=kind, name=name),
        profile=profile,
        definition=Document.of({"name": name, "description": text, **(members or {})}),
        server_version=version,
    )


def sighting(*args: Any, **kwargs: Any) -> Sighting:
    return Sighting(manifest=manifest(*args, **kwargs), seen_at=NOW)


def shown_at(address: str, *args: Any, **kwargs: Any) -> Sighting:
    """Return what a server at `address` shows."""
    return Sighting(manifest=replace(manifest(*args, **kwargs), identity=address), seen_at=NOW)


def digest(*args: Any, **kwargs: Any) -> str:
    return str(manifest(*args, **kwargs).digest)


def make_client(*, name: str, by: str, **wanted: Any) -> tuple[Client, str]:
    made = new_client(
        name=name,
        by=by,
        known=RESOURCES,
        id_octets=name.encode().ljust(16, b"\0")[:16],
        secret_octets=bytes(range(32)),
        now=NOW,
        **wanted,
    )
    return made.client, made.secret


def identity(owner: object) -> IdentityStores:
    """The real stores of who somebody is, on the disk until `owner` is gone."""
    folder = tempfile.mkdtemp()
    stores = IdentityStores.open(Path(folder), clock=clock)

    def end() -> None:
        stores.close()
        shutil.rmtree(folder)

    weakref.finalize(owner, end)
    return stores


def user(subject: str = "emma", /, **changes: Any) -> User:
    known: dict[str, Any] = {
        "id": f"u_{subject}",
        "issuer": URL,
        "subject": subject,
        "name": subject.title(),
        "groups": frozenset({"users"}),
        "created_at": NOW,
        "created_by": "os:root",
    }
    return User(**(known | changes))


def principal(**changes: Any) -> Principal:
    """Who holds a token for the admin API."""
    known: dict[str, Any] = {
        "issuer": URL,
        "subject": "emma",
        "client_id": "douane-cli",
        "client_name": "Douane command line",
        "groups": frozenset(),
        "scopes": frozenset({"admin"}),
        "token_id": "t_1",
        "expires_at": NOW + 600,
        "people": 0,
        "user_id": "u_emma",
    }
    return Principal(**(known | changes))


class Tokens:
    """An authenticator that knows its tokens by heart."""

    def __init__(self) -> None:
        self.held: dict[str, Principal] = {}

    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        held = None if credential is None else self.held.get(credential.text)
        if held is None or endpoint != "/api/v1":
            raise Unauthenticated("the access token is not valid", detail="unknown token")
        return held


def roles_of(groups: frozenset[str]) -> frozenset[str]:
    return frozenset(role for group, role in ROLES.items() if group in groups)


class Links:
    """One-time links, numbered."""

    def __init__(self, stores: IdentityStores) -> None:
        self._users = stores.users
        self._numbers = itertools.count(1)

    def for_new(self, new: User) -> str:
        url, link_hash = self._next()
        self._users.add(new, link_hash=link_hash, link_until=NOW + 60)
        return url

    def another(self, user_id: str) -> str:
        url, link_hash = self._next()
        self._users.add_link(user_id, link_hash, until=NOW + 60)
        return url

    def _next(self) -> tuple[str, str]:
        number = next(self._numbers)
        return f"{URL}/setup?link=secret-{number}", f"hash-{number}"


class Rotation:
    """Counts what was asked to be replaced."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.problem = ""

    async def signing(self) -> Mapping[str, Any]:
        if self.problem:
            raise ValueError(self.problem)
        self.asked.append("signing")
        return {"id": "k_2", "state": "next"}

    async def data(self) -> Mapping[str, Any]:
        self.asked.append("data")
        return {"id": "d_2"}

    async def kek(self) -> Mapping[str, Any]:
        self.asked.append("kek")
        return {"id": "kek_2"}

    async def record_hash(self) -> Mapping[str, Any]:
        self.asked.append("record-hash")
        return {"id": "h2"}


class Engine:
    """A policy of one rule: reading is allowed."""

    digest = "sha256:0123"
    candidate_digest = "sha256:4567"

    def holds(self, digest: str) -> bool:
        return digest == self.digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        if "target" not in question:
            raise PolicyUnavailable("policy gave no usable answer")
        verdict = Verdict.ALLOW if question["target"]["effect"] == "read" else Verdict.DENY
        return Decision(
            id="d_1",
            verdict=verdict,
            reasons=(Reason(code="rule", message="only reading"),),
            policy_digest=self.digest,
        )

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        return [await self.evaluate(question) for question in questions]

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        return "hold"

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        return 1

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        return False


class PinPolicy(Engine):
    """A policy that wants so many people for a change of a tier, one of most."""

    def __init__(self) -> None:
        self.people: dict[str, int] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.problem = ""

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        if self.problem:
            raise PolicyUnavailable(self.problem)
        self.asked.append(question)
        return self.people.get(question["change"]["tier"], 1)


class Files:
    """Policy files with these problems and test results."""

    def __init__(
        self,
        problems: Sequence[str] = (),
        passed: int = 3,
        failures: Sequence[str] = (),
        *,
        changed: int = 0,
        notices: Sequence[str] = (),
    ) -> None:
        self.problems = problems
        self.passed = passed
        self.failures = failures
        self.changed = changed
        self.notices = list(notices)

    async def rules(self) -> Mapping[str, Any]:
        files = [{"file": "flow.rego", "codes": ["rule_a", "rule_b"]}]
        return {"digest": "sha256:0123", "files": files}

    async def check(self) -> Mapping[str, Sequence[str]]:
        return {"problems": self.problems, "notices": self.notices}

    async def test(self) -> Mapping[str, Any]:
        failures = list(self.failures)
        return {
            "passed": self.passed,
            "changed": self.changed,
            "failed": len(failures),
            "failures": failures,
            "notices": self.notices,
        }


class Runs:
    def __init__(self) -> None:
        self.states = {run.id: RunState(run=run, live=True, idle_s=7.4) for run in RUNS}
        self.whose: dict[str, str | None] = dict.fromkeys(self.states, "https://gate|noah")
        self.look = "0.first"
        """Of any of them: another one once something has come into it."""

    def all(self) -> Sequence[RunState]:
        return list(self.states.values())

    def find(self, run: RunId) -> RunState | None:
        return self.states.get(run)

    def acts_for(self, run: RunId, people: Collection[str]) -> bool:
        return self.whose.get(run) in {None, *people}

    async def end(self, run: RunId) -> Run | None:
        state = self.states[run]
        self.states[run] = replace(state, live=False)
        return state.run if state.live else None

    async def look_at(self, run: RunId) -> str:
        return self.look if run in self.states else ""

    async def lower_label(self, run: RunId, seen: Label, label: Label, *, look: str) -> Run | None:
        state = self.states[run]
        if (state.run.label, self.look) != (seen, look):
            return None
        self.states[run] = replace(state, run=replace(state.run, label=label))
        return self.states[run].run


def status() -> Sequence[Mapping[str, Any]]:
    return [{"server": "mail", "url": "http://127.0.0.1:9001/mcp", "status": "ok", "error": None}]


def keys() -> Sequence[Mapping[str, Any]]:
    return [
        {"use": "audit", "id": "douane/here", "state": "active", "public": SIGNER.verifier},
    ]


class Registry:
    """Registered servers, by name."""

    def __init__(self) -> None:
        self.kept: dict[str, Mapping[str, Any]] = {}
        self.problem = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.kept)

    async def add(self, name: str, settings: Mapping[str, Any]) -> None:
        if self.problem:
            raise BadCommand(self.problem)
        self.kept[name] = settings

    async def remove(self, name: str) -> None:
        if name not in self.kept:
            raise NotFound(f"no server {name} is registered")
        del self.kept[name]


async def no_look(name: str) -> None:
    """Look at nothing."""


class World:
    """Stores in memory, and the desks over them."""

    def __init__(self) -> None:
        self.log = MemoryAuditLog()
        self.pins = MemoryPinStore(clock=self.clock)
        self.identity = identity(self)
        self.clients = self.identity.clients
        self.users = self.identity.users
        self.tokens = Tokens()
        self.rotation = Rotation()
        self.journal = new_journal(self.log)
        self.registry = Registry()
        self.looked: list[str] = []

        async def look(name: str) -> None:
            self.looked.append(name)

        self.server_desk = ServerDesk(status, self.pins, self.registry, self.journal, look=look)
        self.people = people_of(self.identity, self.tokens, self.journal)
        self.policy = PinPolicy()
        self.expire_s: float | None = None
        self.labelled: tuple[str, ...] = ()
        self.rule = NO_RULE
        self.unread: list[tuple[str, str]] = []
        """Codes and addresses of requests that were refused unread."""
        self.now = NOW
        self.guidance: dict[str, Guidance] = {}
        self.pin_desk = self.new_pin_desk()
        self.client_desk = ClientDesk(self.clients, self.journal, make_client)
        self.user_desk = user_desk_of(self.identity, self.people, self.journal)
        self.access_desk = access_desk_of(self.identity, self.people, self.journal)

    def new_pin_desk(self, pins: Any = None, signer: LockSigner = SIGNER) -> PinDesk:
        return PinDesk(
            pins or self.pins,
            self.journal,
            signer,
            policy=self.policy,
            expire_s=lambda: self.expire_s,
            labelled=lambda server: self.labelled if server == "mail" else (),
            rule=lambda _: self.rule,
            guidance=lambda target: self.guidance.get(target.name, NO_GUIDANCE),
            may_approve=self.people.may_approve,
            clock=self.clock,
        )

    def clock(self) -> float:
        return self.now

    async def show(self, *sightings: Sighting) -> None:
        await self.pins.observe(sightings)

    @property
    def written(self) -> list[dict[str, Any]]:
        """What the log holds, without the parts that are the same in every record."""
        return [{"kind": record.kind.value, **record.fields} for record in self.log.records]


def reviewed(name: str = "send", text: str = "Sends mail.", **kwargs: Any) -> Reviewed:
    return Reviewed(
        kind=kwargs.get("kind", Kind.TOOL),
        name=name,
        profile=kwargs.get("profile", Profile.MODERN),
        digest=digest(name, text, **{n: kwargs[n] for n in kwargs if n != "address"}),
        address=kwargs.get("address", ""),
    )


async def approved(world: World, *names: str) -> None:
    for name in names:
        await world.show(sighting(name))
        await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed(name)])
    world.log.records.clear()


def new_journal(log: Any) -> Journal:
    return Journal(log, clock=clock, new_id=lambda: f"a_{next(NUMBERS)}")


def people_of(stores: IdentityStores, tokens: Tokens, journal: Journal) -> People:
    return People(stores.users, tokens, journal, roles_of=roles_of, issuer=URL)


def user_desk_of(
    stores: IdentityStores, people: People, journal: Journal, *, passwords: bool = True
) -> UserDesk:
    return UserDesk(
        stores.users,
        people,
        journal,
        issuer=URL,
        links=Links(stores) if passwords else None,
        clock=clock,
        new_id=lambda: f"u_{next(NUMBERS)}",
    )


def access_desk_of(stores: IdentityStores, people: People, journal: Journal) -> AccessDesk:
    return AccessDesk(
        users=stores.users,
        clients=stores.clients,
        browsers=stores.browsers,
        grants=stores.grants,
        connections=stores.connections,
        people=people,
        journal=journal,
        issuer=URL,
        clock=clock,
    )


class Alerting:
    """One webhook that takes what it is sent."""

    def webhooks(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "webhook": "ops",
                "host": "hooks.example.com",
                "events": ["approval"],
                "waiting": 2,
                "failing": "it answers with status 500",
            }
        ]

    async def ping(self, name: str) -> int:
        if name != "ops":
            raise NotFound("there is no webhook of this name in the configuration")
        return 204

    async def baselines(self) -> Sequence[Mapping[str, Any]]:
        return [{"view": "principal", "known": 3, "learned": 1}]


def export_desk_of(store: Store, journal: Journal, around: ExitStack) -> ExportDesk:
    """Return the desk of what leaves the log of `store`; `around` closes it."""
    reader = BundleReader(open_reader(store.data_dir / DATABASE))
    around.callback(reader.close)
    return ExportDesk(
        reader,
        store.cursors,
        journal,
        key=store.verifier,
        sign=store.writer.sign,
        configured=frozenset,
        at_work=tuple,
        hashes_of=store.hashes_of,
        clock=clock,
    )


class Comparison:
    """What a policy says that would have refused all."""

    members: dict[str, Any] = {  # noqa: RUF012 - read only
        "finding": "changed",
        "before": {"verdict": "allow", "reasons": []},
        "after": {"verdict": "deny", "reasons": ["closed"]},
        "lacking": [],
    }


class Trial:
    digest = "sha256:89ab"

    def compare(self, record: Mapping[str, Any]) -> Comparison | None:
        return Comparison() if "question" in record else None


def replay_desk_of(reader: Any, journal: Journal, audit: AuditDesk) -> ReplayDesk:
    return ReplayDesk(
        reader,
        journal,
        trials=lambda files: Trial(),
        explained=lambda record: {"finding": "same", "decision_id": record["decision_id"]},
        placed=lambda record: {
            "finding": "not_asked",
            "policy_digest": "sha256:0123",
            "rules": [{"file": "flow.rego", "line": 7, "rule": "deny", "code": "rule_a"}]
            if record.get("verdict") == "deny"
            else [],
        },
        records_of=audit.explain,
        hashes_of=audit._hashes_of,
        clock=clock,
    )


@asynccontextmanager
async def opened(
    data_dir: Path,
    files: Files | None = None,
    *,
    seen: Sequence[Sighting] = (),
    tokens: Tokens | None = None,
    scripts: MemoryScriptStore | None = None,
    approvals: MemoryApprovalStore | None = None,
    people_in: IdentityStores | None = None,
) -> AsyncIterator[tuple[Admin, Store]]:
    """Give every use case over the files in `data_dir`."""
    store = await Store.open(data_dir, clock=clock)
    reader = store.log.reader()
    stores = people_in or IdentityStores.open(data_dir, clock=clock)
    journal = new_journal(store.audit)
    people = people_of(stores, tokens or Tokens(), journal)
    around = ExitStack()
    archive = around.enter_context(archive_of(store))
    audit = AuditDesk(
        reader,
        archive,
        journal,
        hashes_of=store.hashes_of,
        clock=clock,
    )
    no_retention: Any = None
    questions = _approvals(journal, approvals or MemoryApprovalStore())
    stopping = StopDesk(Stop(data_dir), journal, clock=clock)
    try:
        await store.pins.observe(seen)
        yield (
            Admin(
                people=people,
                pins=PinDesk(
                    store.pins,
                    journal,
                    LockSigner(store.log_id, store.keys.audit),
                    policy=Engine(),
                    expire_s=lambda: None,
                    labelled=lambda _: (),
                    rule=lambda _: NO_RULE,
                    guidance=lambda _: NO_GUIDANCE,
                    may_approve=people.may_approve,
                    clock=clock,
                ),
                users=user_desk_of(stores, people, journal),
                access=access_desk_of(stores, people, journal),
                approvals=questions,
                counts=CountDesk(questions, store.pins, status, stopping),
                usage=UsageDesk(lambda: QUOTAS, store.usage, clock=clock),
                alerts=AlertDesk(Alerting(), journal),
                clients=ClientDesk(stores.clients, journal, make_client),
                servers=ServerDesk(status, store.pins, Registry(), journal, look=no_look),
                labels=LabelDesk(store.pins, lambda _: ()),
                discovery=DiscoveryDesk(
                    store.pins,
                    audit.calls_since,
                    core=lambda: CORE,
                    servers=lambda: ("files", "mail"),
                    name_of=lambda target: f"{target.server}__{target.name}",
                ),
                runs=RunDesk(
                    Runs(),
                    audit.of_run,
                    journal,
                    clients=stores.clients,
                    policy=Engine(),
                    issuer=URL,
                    clock=clock,
                ),
                scripts=ScriptDesk(scripts or MemoryScriptStore(), journal, clock=clock),
                policy=PolicyDesk(Engine(), files or Files(), journal),
                stop=stopping,
                replay=replay_desk_of(
                    around.enter_context(closing(store.log.reader())), journal, audit
                ),
                audit=audit,
                verifying=VerifyDesk(
                    lambda notes: verify(data_dir, store.verifier, checkpoints=notes),
                    archive,
                    journal,
                    clock=clock,
                ),
                keeping=KeepingDesk(no_retention, journal, clock=clock),
                export=export_desk_of(store, journal, around),
                ask=AskDesk(archive, journal, hashes_of=store.hashes_of, clock=clock),
                keys=KeyDesk(keys, Rotation(), journal),
            ),
            store,
        )
    finally:
        around.close()
        reader.close()
        stores.close()
        await store.close()


async def nobody_barred(_answer: StandingAnswer, _since: float) -> str:
    return ""


class Themselves:
    """What policy says of people who answer for themselves: what it is told to."""

    says: bool | GatewayError = True

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        if isinstance(self.says, GatewayError):
            raise self.says
        return self.says


def _approvals(journal: Journal, approvals: MemoryApprovalStore) -> ApprovalDesk:
    return ApprovalDesk(
        approvals,
        journal,
        clients=MemoryClientStore(),
        sources=lambda _: (),
        issuer=URL,
        clock=clock,
        standing=StandingDesk(
            MemoryStandingAnswers(),
            approvals,
            journal,
            claims=ProcessClaims(clock=clock),
            rules=ApprovalRules,
            barred=nobody_barred,
            issuer=URL,
            clock=clock,
        ),
        policy=Themselves(),
    )
