"""What a configuration says of proofs of possession, for whoever checks them."""

from gateway.config import Config
from gateway.domain.calls import AGGREGATE
from gateway.oauth.possession import Possession, ProofRules, ProvenTokens
from gateway.oauth.resources import ADMIN_API, Resources


def proof_rules(config: Config, resources: Resources) -> ProofRules:
    """Return which endpoints take bound tokens, and which take no others."""
    said = dict.fromkeys(resources.uris, config.auth.dpop)
    for name, server in config.servers.items():
        if server.dpop is not None:
            said[f"{AGGREGATE}/{name}"] = server.dpop
    required = frozenset(path for path, demand in said.items() if demand == "required")
    return ProofRules(
        taken=frozenset(path for path, demand in said.items() if demand != "off"),
        # `douane login` holds no key yet, and would be locked out.
        required=required - {ADMIN_API},
        window_s=config.auth.dpop_window,
    )


def proven_tokens(config: Config, possession: Possession) -> ProvenTokens:
    """Return what reads bound tokens and their proofs off requests to either listener."""

    def urls_of(path: str) -> tuple[str, ...]:
        public = config.public_url + path
        if not path.startswith(ADMIN_API + "/"):
            return (public,)
        # Nothing need stand in front of it: then it is known by where it listens.
        return public, f"http://{config.admin_listen}{path}"

    return ProvenTokens(possession, urls_of)
