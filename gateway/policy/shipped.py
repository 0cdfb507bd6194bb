"""Which rules and tests of a policy are the shipped ones, byte for byte.

By their digests and not by their names: an operator's folder begins as a copy of the shipped one, and
in a checkout it is the shipped one.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

import gateway.policy

LISTED: Final = "shipped.sha256"
"""As `sha256sum` writes it; lines are added and never removed, for those who keep older copies."""


def is_shipped(content: bytes) -> bool:
    """Tell whether `content` is that of a file of Rego which some version has shipped."""
    return hashlib.sha256(content).hexdigest() in _digests()


@cache
def _digests() -> frozenset[str]:
    text = (files(gateway.policy) / LISTED).read_text(encoding="ascii")
    return frozenset(line.split()[0] for line in text.splitlines() if line.strip())
