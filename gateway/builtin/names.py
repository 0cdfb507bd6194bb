"""What a target is called at the endpoint in front of every server: `server__tool`, or a URI of ours.

Nothing has to be remembered to find a target by its name again. A name that could be read in two ways,
or that is too long for hosts, is cut and ends in a digest of the target instead.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gateway.domain.tools import Kind, Target, UpstreamId

LONGEST: Final = 64
"""Characters of a name; hosts refuse longer ones."""
BETWEEN: Final = "__"
_DIGEST_CHARS: Final = 16
"""Of base32: 80 bits, so nobody finds a tool that is called like another server's."""
_DIGESTED: Final = re.compile(r"--[a-z2-7]{16}")
_SCHEME: Final = "douane://"
_HEAD_CHARS: Final = LONGEST - len("--") - _DIGEST_CHARS


def public_name(target: Target) -> str:
    """Return what a tool or prompt is called; at most `LONGEST` of `[A-Za-z0-9_.-]`.

    `server__name`, where the first `__` can only be the one between the two. Whatever else ends in
    two dashes and a digest, as no plain name does, so of two targets no two names are the same.
    """
    # Names are callers' own: none that is long is remembered.
    return _short_name(target) if len(target.name) <= LONGEST else _made_name(target)


@lru_cache(maxsize=16_384)
def _short_name(target: Target) -> str:
    return _made_name(target)


def _made_name(target: Target) -> str:
    plain = _plain(target)
    if (
        len(plain) <= LONGEST
        and plain.index(BETWEEN) == len(target.server)
        and _DIGESTED.fullmatch(plain[-_DIGEST_CHARS - 2 :]) is None
    ):
        return plain
    octets = hashlib.sha256(f"{target.server}\n{target.name}".encode()).digest()
    digest = base64.b32encode(octets).decode().lower()[:_DIGEST_CHARS]
    return f"{plain[:_HEAD_CHARS]}--{digest}"


def target_of(
    name: str, kind: Kind, servers: Iterable[str], known: Iterable[Target]
) -> Target | None:
    """Return the target that `name` is the public name of; `None` if it is none's.

    It need not exist: a plain name says by itself which server it would be of. A digest is looked for
    among the `known` targets, and one that two of them share names neither.
    """
    if _DIGESTED.fullmatch(name[-_DIGEST_CHARS - 2 :]) is None:
        server, _, inner = name.partition(BETWEEN)
        target = Target(server=UpstreamId(server), kind=kind, name=inner)
        return target if inner and server in servers and public_name(target) == name else None
    head = name[: -_DIGEST_CHARS - 2]
    found = {
        one
        for one in known
        # What is cheap to tell first: anybody may ask, and there may be thousands.
        if one.kind is kind and _plain(one)[:_HEAD_CHARS] == head and public_name(one) == name
    }
    return found.pop() if len(found) == 1 else None


def _plain(target: Target) -> str:
    return f"{target.server}{BETWEEN}{target.name}"


def public_uri(server: UpstreamId, uri: str) -> str:
    """Return what a resource's URI, or a template of one, is here.

    The server's own spelling follows as it is, so that expanding the template here and there gives the
    same resource (RFC 6570).
    """
    return f"{_SCHEME}{server}/{uri}"


def resource_of(uri: str, servers: Iterable[str]) -> Target | None:
    """Return the resource or template that `uri` is the public URI of; `None` if it is none's."""
    if not uri.startswith(_SCHEME):
        return None
    server, _, inner = uri.removeprefix(_SCHEME).partition("/")
    if not inner or server not in servers:
        return None
    return Target(server=UpstreamId(server), kind=Kind.RESOURCE, name=inner)
