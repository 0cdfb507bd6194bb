"""All use cases over real stores in memory, or over a real data directory."""

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway.admin import Admin
from gateway.admin.audit import AuditDesk
from gateway.admin.clients import ClientDesk
from gateway.admin.journal import Journal
from gateway.admin.lock import LockSigner
from gateway.admin.operations import KeyDesk, RunDesk, ServerDesk
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.pins import PinDesk, Reviewed
from gateway.admin.policy import PolicyDesk
from gateway.audit.record import hmac_of
from gateway.domain.decisions import Decision, Reason, Verdict
from gateway.domain.document import Document
from gateway.domain.flow import Run, RunId, Source
from gateway.domain.identity import Client
from gateway.domain.labels import BOTTOM, STRICTEST_DEFAULT
from gateway.domain.tools import Kind, Manifest, Profile, Sighting, Target, UpstreamId
from gateway.errors import PolicyUnavailable
from gateway.oauth.clients import new_client
from gateway.oauth.resources import Resources
from gateway.storage.memory import MemoryAuditLog, MemoryClientStore, MemoryPinStore
from gateway.storage.store import Store
from gateway.storage.verify import verify

NOW = 1_800_000_000.0
NOW_TEXT = "2027-01-15T08:00:00.000Z"

EMMA = Person(name="os:emma", roles=EVERY_ROLE)
APPROVER = Person(name="os:ada", roles=frozenset({Role.APPROVER}))
ADMIN = Person(name="os:root", roles=frozenset({Role.ADMIN}))
AUDITOR = Person(name="os:otto", roles=frozenset({Role.AUDITOR}))
USER = Person(name="os:uma", roles=frozenset({Role.USER}))
STRANGER = Person(name="os:sam", roles=frozenset())

NUMBERS = itertools.count(1)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
SIGNER = LockSigner("douane/here", KEY)
RESOURCES = Resources.of(public_url="http://127.0.0.1:8080", servers=["mail"])

RUNS = [
    Run(id=RunId("r_old"), label=BOTTOM),
    Run(
        id=RunId("r_new"),
        label=STRICTEST_DEFAULT,
        sources=(Source(server="web", tool="fetch", record=7, label=STRICTEST_DEFAULT),),
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
) -> Manifest:
    return Manifest(
        target=Target(server=UpstreamId(server), kind=kind, name=name),
        profile=profile,
        definition=Document.of({"name": name, "description": text}),
        server_version=version,
    )


def sighting(*args: Any, **kwargs: Any) -> Sighting:
    return Sighting(manifest=manifest(*args, **kwargs), seen_at=NOW)


def digest(*args: Any, **kwargs: Any) -> str:
    return str(manifest(*args, **kwargs).digest)


def make_client(
    *,
    name: str,
    resources: frozenset[str],
    scopes: frozenset[str],
    groups: frozenset[str],
    trusted_host: bool,
    by: str,
) -> tuple[Client, str]:
    made = new_client(
        name=name,
        resources=resources,
        scopes=scopes,
        known=RESOURCES,
        groups=groups,
        trusted_host=trusted_host,
        id_octets=name.encode().ljust(16, b"\0")[:16],
        secret_octets=bytes(range(32)),
        now=NOW,
        by=by,
    )
    return made.client, made.secret


class Engine:
    """A policy of one rule: reading is allowed."""

    digest = "sha256:0123"

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


class Files:
    """Policy files with these problems and test results."""

    def __init__(
        self, problems: Sequence[str] = (), passed: int = 3, failures: Sequence[str] = ()
    ) -> None:
        self.problems = problems
        self.passed = passed
        self.failures = failures

    async def check(self) -> Sequence[str]:
        return self.problems

    async def test(self) -> Mapping[str, Any]:
        failures = list(self.failures)
        return {"passed": self.passed, "failed": len(failures), "failures": failures}


class Runs:
    def all(self) -> Sequence[Run]:
        return RUNS

    def find(self, run: RunId) -> Run | None:
        return next((each for each in RUNS if each.id == run), None)


def status() -> Sequence[Mapping[str, Any]]:
    return [{"server": "mail", "url": "http://127.0.0.1:9001/mcp", "status": "ok", "error": None}]


def keys() -> Sequence[Mapping[str, Any]]:
    return [{"use": "audit", "id": "douane/here", "public": SIGNER.verifier}]


class World:
    """Stores in memory, and the desks over them."""

    def __init__(self) -> None:
        self.log = MemoryAuditLog()
        self.pins = MemoryPinStore(clock=clock)
        self.clients = MemoryClientStore()
        self.journal = new_journal(self.log)
        self.pin_desk = PinDesk(self.pins, self.journal, SIGNER)
        self.client_desk = ClientDesk(self.clients, self.journal, make_client)

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
        digest=digest(name, text, **kwargs),
    )


async def approved(world: World, *names: str) -> None:
    for name in names:
        await world.show(sighting(name))
        await world.pin_desk.approve(EMMA, server="mail", reviewed=[reviewed(name)])
    world.log.records.clear()


def new_journal(log: Any) -> Journal:
    return Journal(log, clock=clock, new_id=lambda: f"a_{next(NUMBERS)}")


@asynccontextmanager
async def opened(
    data_dir: Path, files: Files | None = None, *, seen: Sequence[Sighting] = ()
) -> AsyncIterator[tuple[Admin, Store]]:
    """Give every use case over the files in `data_dir`."""
    store = await Store.open(data_dir, clock=clock)
    reader = store.reader()
    journal = new_journal(store.audit)
    try:
        await store.pins.observe(seen)
        yield (
            Admin(
                pins=PinDesk(store.pins, journal, LockSigner(store.log_id, store.keys.audit)),
                clients=ClientDesk(store.clients, journal, make_client),
                servers=ServerDesk(status, store.pins),
                runs=RunDesk(Runs()),
                policy=PolicyDesk(Engine(), files or Files()),
                audit=AuditDesk(
                    reader,
                    verify=lambda notes: verify(data_dir, store.verifier, checkpoints=notes),
                    hash_of=lambda content: hmac_of(store.keys.hmac, content),
                    clock=clock,
                ),
                keys=KeyDesk(keys),
            ),
            store,
        )
    finally:
        reader.close()
        await store.close()
