"""What a configuration says of proofs of possession, and under which URLs its endpoints are known."""

from pathlib import Path

import pytest

from gateway.config import Config, parse
from gateway.domain.identity import BoundToken
from gateway.errors import ProofRefused
from gateway.oauth.possession import Possession
from gateway.oauth.resources import Resources
from gateway.oauth.seen_proofs import SeenProofs
from gateway.wiring.proofs import proof_rules, proven_tokens
from tests.oauth.holders import Holder
from tests.oauth.world import NOW, Hand

MAIL, WEB, ALL, API = "/mcp/mail", "/mcp/web", "/mcp", "/api/v1"
HEAD = "version: 1\npublic_url: https://gw.example\nadmin_listen: 127.0.0.1:9081\n"
HOLDER = Holder()


def config(demand: str, mail: str = "") -> Config:
    said = f", dpop: {mail}" if mail else ""
    servers = (
        f"servers: {{mail: {{url: 'http://127.0.0.1:9001/mcp'{said}}}, "
        "web: {url: 'http://127.0.0.1:9002/mcp'}}"
    )
    return parse(f"{HEAD}auth: {{dpop: {demand}}}\n{servers}", file=Path("douane.yaml"))


@pytest.mark.parametrize(
    ("demand", "mail", "taken", "required"),
    [
        ("off", "", frozenset(), frozenset()),
        ("offered", "", frozenset({MAIL, WEB, ALL, API}), frozenset()),
        # The command line signs people in without a key.
        ("required", "", frozenset({MAIL, WEB, ALL, API}), frozenset({MAIL, WEB, ALL})),
        ("off", "required", frozenset({MAIL}), frozenset({MAIL})),
        ("required", "off", frozenset({WEB, ALL, API}), frozenset({WEB, ALL})),
        ("required", "offered", frozenset({MAIL, WEB, ALL, API}), frozenset({WEB, ALL})),
    ],
)
def test_what_is_asked_for_where(
    demand: str, mail: str, taken: frozenset[str], required: frozenset[str]
) -> None:
    found = config(demand, mail)
    resources = Resources.of(public_url=found.public_url, servers=found.servers)
    rules = proof_rules(found, resources)
    assert (rules.taken, rules.required, rules.window_s) == (taken, required, 60.0)


@pytest.mark.parametrize(
    ("path", "endpoint", "url", "good"),
    [
        (MAIL, MAIL, "https://gw.example/mcp/mail", True),
        (MAIL, MAIL, "http://127.0.0.1:9081/mcp/mail", False),
        (f"{API}/whoami", API, "https://gw.example/api/v1/whoami", True),
        (f"{API}/whoami", API, "http://127.0.0.1:9081/api/v1/whoami", True),
        (f"{API}/whoami", API, "https://gw.example/api/v1/users/list", False),
    ],
)
def test_an_endpoint_is_known_by_what_is_configured(
    path: str, endpoint: str, url: str, good: bool
) -> None:
    found = config("offered")
    resources = Resources.of(public_url=found.public_url, servers=found.servers)
    possession = Possession(proof_rules(found, resources), SeenProofs(since=0), clock=Hand())
    proven = proven_tokens(found, possession)
    proof = HOLDER.proof(htm="GET", htu=url, token="t", iat=int(NOW))
    if good:
        credential = proven.read("GET", path, "t", [proof], endpoint=endpoint)
        assert isinstance(credential, BoundToken)
        return
    with pytest.raises(ProofRefused):
        proven.read("GET", path, "t", [proof], endpoint=endpoint)
