"""The admin API takes bound tokens, each with a proof for its own request."""

from gateway.domain.identity import BoundToken, Credential, Principal, Proof
from gateway.errors import ProofRefused
from gateway.oauth.seen_proofs import SeenProofs
from tests.web.api_site import JSON, METADATA, ApiSite

ALGORITHMS = ("ES256", "EdDSA")
SAID = f'scope="admin", resource_metadata="{METADATA}"'
BOUND = (b"authorization", b"DPoP good")
PROOF = (b"dpop", b"canary.proof.text")


class Reader:
    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, method: str, path: str, token: str, proofs: list[str]) -> Credential:
        self.asked.append((method, path, token, *proofs))
        if not proofs:
            raise ProofRefused("no valid proof", detail="DPoP proof: missing")
        return BoundToken(text=token, proof=Proof(key="k", use=b"u", made_at=0.0, until=1.0))


async def test_a_bound_token_with_a_proof_is_its_holders():
    reader = Reader()
    answer = await ApiSite(proven=reader, proofs=ALGORITHMS).ask("GET", "whoami", BOUND, PROOF)
    assert answer.status == 200
    assert reader.asked == [("GET", "/api/v1/whoami", "good", "canary.proof.text")]


async def test_a_proof_is_good_for_a_change_and_looked_at_again_for_it_is_no_second_use(
    monkeypatch,
):
    site = ApiSite(proven=Reader(), proofs=ALGORITHMS)
    seen, known, looks = SeenProofs(since=0.0), site.world.tokens.authenticate, []

    async def authenticate(credential: Credential, endpoint: str) -> Principal:
        assert isinstance(credential, BoundToken)
        looks.append(credential)
        try:
            await seen.use_soon(credential.proof, owner="emma", now=1.0)
        except ValueError as error:
            raise ProofRefused("no valid proof", detail=str(error)) from error
        return await known(credential, endpoint)

    monkeypatch.setattr(site.world.tokens, "authenticate", authenticate)
    body = (b'{"name": "otto"}',)
    answer = await site.ask("POST", "users/add", BOUND, PROOF, JSON, chunks=body)
    assert (answer.status, len(looks)) == (200, 2)
    again = await site.ask("POST", "users/add", BOUND, PROOF, JSON, chunks=body)
    assert again.status == 401


async def test_without_a_good_proof_it_is_refused_and_recorded():
    site = ApiSite(proven=Reader(), proofs=ALGORITHMS)
    answer = await site.ask("GET", "whoami", BOUND)
    assert answer.status == 401
    challenges = [text.decode() for name, text in answer.sent[0]["headers"] if b"www" in name]
    assert challenges == [
        f"Bearer {SAID}",
        f'DPoP error="invalid_dpop_proof", algs="ES256 EdDSA", {SAID}',
    ]
    (record,) = site.world.written
    assert (record["kind"], record["method"]) == ("auth", "authenticate")
    assert record["reasons"][0]["message"] == "DPoP proof: missing"


async def test_where_none_are_taken_a_bound_token_is_no_token():
    site = ApiSite()
    answer = await site.ask("GET", "whoami", BOUND, PROOF)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == f"Bearer {SAID}"
    # Like no token at all, which is on record, too.
    assert [one["code"] for one in site.world.written] == ["unauthenticated"]
