"""What posts to where the operator said, by the configuration."""

from urllib.parse import urlsplit

from gateway.config import Config
from gateway.config.values import is_loopback
from gateway.upstream.egress import MOST_BYTES, EgressPolicy, GuardedFetcher

_LOOPBACK = ("127.0.0.0/8", "::1/128")
_WHOLE_S = 10.0


def poster_to(
    url: str, config: Config, *, whole_s: float = _WHOLE_S, most_bytes: int = MOST_BYTES
) -> GuardedFetcher:
    """Return what posts to `url`, and takes so much of an answer for so long."""
    # An operator who writes down an address of this machine means it.
    own = _LOOPBACK if is_loopback(urlsplit(url).hostname or "") else ()
    policy = EgressPolicy.of([*config.egress.allow, *own])
    return GuardedFetcher(policy, ca=config.egress.ca, most_bytes=most_bytes, whole_s=whole_s)
