"""What a request proves is read off its head once, and never kept."""

from collections.abc import Sequence

import pytest

from gateway.domain.identity import BoundToken, Credential, Proof
from gateway.domain.tools import Profile
from gateway.errors import ProofRefused
from tests.web.asgi import HOST, ask
from tests.web.test_mcp_endpoint import CALL, JSON, PATH, Site

PROOF = (b"dpop", b"canary.proof.text")
BOUND = (b"authorization", b"DPoP alice")


class Reader:
    """Says what it was asked, and what is proven each time."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.refuses = False

    def __call__(self, method: str, path: str, token: str, proofs: Sequence[str]) -> Credential:
        self.asked.append((method, path, token, *proofs))
        if self.refuses:
            raise ProofRefused("no valid proof", detail="DPoP proof: used before")
        return BoundToken(text="alice", proof=Proof(key="k", use=b"u", made_at=0.0, until=1.0))


@pytest.fixture
async def site() -> Site:
    site = Site(Reader())
    await site.house.approve_all(Profile.LEGACY)
    return site


async def test_of_one_request_the_head_is_read_once_and_counts_to_the_end(site):
    shown: list[Credential] = []
    authenticate = site.house.gate.authenticate

    async def noting(credential, endpoint):
        shown.append(credential)
        return await authenticate(credential, endpoint)

    site.house.gate.authenticate = noting
    answer = await ask(site.app, "POST", PATH, (HOST, JSON, BOUND, PROOF), CALL)
    assert answer.status == 200
    assert site.endpoint._proven.asked == [("POST", PATH, "alice", "canary.proof.text")]
    first, *others = shown
    assert others
    assert all(other is first for other in others)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_proof_that_is_refused_is_on_record_and_stands_nowhere(site, method):
    site.endpoint._proven.refuses = True
    answer = await ask(site.app, method, PATH, (HOST, JSON, BOUND, PROOF), CALL)
    assert (answer.status, answer.received) == (401, 0)
    ((kind, fields),) = site.records
    assert (kind, fields["code"]) == ("auth", "unauthenticated")
    assert fields["reasons"][0]["message"] == "DPoP proof: used before"
    assert "canary" not in repr(fields) + answer.body.decode()


async def test_bad_proofs_are_throttled_like_bad_tokens(site):
    site.endpoint._proven.refuses = True
    statuses = [
        (await ask(site.app, "POST", PATH, (HOST, JSON, BOUND, PROOF), CALL)).status
        for _ in range(301)
    ]
    assert (set(statuses[:300]), statuses[300]) == ({401}, 429)
