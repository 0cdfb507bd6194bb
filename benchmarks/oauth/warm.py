"""What a token costs that the gate has seen before, beside what its signature alone costs."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cryptography.hazmat.primitives.asymmetric import ec

from gateway.domain.grants import Grant
from gateway.domain.identity import AuthMethod, BearerToken, Client, ClientKind, User
from gateway.oauth.gate import TokenGate
from gateway.oauth.keys import KeyRing, SigningKey
from gateway.oauth.resources import Resources
from gateway.oauth.tokens import AccessToken, mint, verify
from gateway.storage.identity.store import IdentityStores
from tests.storage.memory_calls import MemoryScriptStore

PUBLIC_URL = "http://127.0.0.1:8080"
ENDPOINT = "/mcp/notes"
_LIFETIME_S = 600
_BATCHES = 15


@dataclass(frozen=True, kw_only=True)
class Warmth:
    """Microseconds, as medians over several batches that took turns."""

    warm_us: float
    """The whole check of a token that was checked before: its time, family, client and person."""
    signature_us: float
    """The verification of one such token: an ES256 signature, and claims."""

    @property
    def ratio(self) -> float:
        return self.warm_us / self.signature_us


def measure(folder: Path, *, checks: int) -> Warmth:
    """Time `checks` warm checks a batch, against the real stores of `folder`."""
    stores = IdentityStores.open(folder, clock=time.time)
    try:
        return asyncio.run(_measure(stores, checks))
    finally:
        stores.close()


async def _measure(stores: IdentityStores, checks: int) -> Warmth:
    keys = KeyRing([SigningKey.of(ec.generate_private_key(ec.SECP256R1()))])
    resources = Resources.of(public_url=PUBLIC_URL, servers=["notes"])
    now = time.time()
    token = _granted(stores, now)
    gate = TokenGate(
        resources=resources,
        keys=keys,
        clients=stores.clients,
        users=stores.users,
        is_revoked=stores.grants.is_revoked,
        scripts=MemoryScriptStore(),
        clock=time.time,
        epoch=stores.epoch,
        people=lambda: stores.people,
    )
    credential = BearerToken(text=mint(token, keys))
    await gate.authenticate(credential, ENDPOINT)

    async def warm() -> None:
        await gate.authenticate(credential, ENDPOINT)

    async def cold() -> None:
        verify(
            credential.text, keys=keys, issuer=PUBLIC_URL, audience=token.audience, now=time.time()
        )

    timed = [
        (await _microseconds(warm, checks), await _microseconds(cold, max(1, checks // 20)))
        for _ in range(_BATCHES)
    ]
    return Warmth(
        warm_us=median(one for one, _ in timed), signature_us=median(one for _, one in timed)
    )


async def _microseconds(work: Callable[[], Awaitable[None]], times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        await work()
    return (time.perf_counter() - begun) / times * 1e6


def _granted(stores: IdentityStores, now: float) -> AccessToken:
    """Store a person, a client and what one granted the other; return what its token says."""
    person = User(
        id=secrets.token_hex(16),
        issuer=PUBLIC_URL,
        subject="emma",
        name="Emma",
        groups=frozenset({"users"}),
        created_at=now,
        created_by="report",
    )
    client = Client(
        id=secrets.token_hex(16),
        name="A program",
        kind=ClientKind.DYNAMIC,
        auth_methods=frozenset({AuthMethod.NONE}),
        redirect_uris=("http://127.0.0.1/callback",),
        grants=("authorization_code", "refresh_token"),
        created_at=now,
        created_by="report",
    )
    scopes = frozenset({"tools:list", "tools:call"})
    grant = Grant(
        id=secrets.token_hex(16),
        user_id=person.id,
        client_id=client.id,
        endpoint=ENDPOINT,
        scopes=scopes,
        created_at=now,
        expires_at=now + _LIFETIME_S,
    )
    stores.users.add(person)
    stores.clients.add(client)
    stores.grants.begin_family(grant, None)
    return AccessToken(
        issuer=PUBLIC_URL,
        subject=person.id,
        audience=PUBLIC_URL + ENDPOINT,
        client_id=client.id,
        client_name=client.name,
        scopes=scopes,
        groups=frozenset(),
        issued_at=int(now),
        expires_at=int(now) + _LIFETIME_S,
        token_id=secrets.token_hex(16),
        grant_id=grant.id,
    )
