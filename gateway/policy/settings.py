"""What an operator chooses about policy."""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.domain._value import value

FUEL = 200_000_000
"""Instructions of one evaluation, some tens of milliseconds; a shipped decision takes a thousandth.
Fuel rather than a timer: no thread, and the same question always ends alike."""


class EngineKind(StrEnum):
    WASM = "wasm"
    """Compiled by OPA, evaluated in this process."""
    OPA = "opa"
    """Asked of an OPA server: somebody's, or one that the gateway runs itself."""


@value
class OpaServer:
    """A central OPA. It holds the policy and `data.douane.config` itself; nothing is sent to it."""

    url: str
    """`https://opa.example.com:8181`, without a path below which it serves `/v1`."""
    token: str = field(default="", repr=False)
    """A bearer token; empty sends none."""
    ca_file: Path | None = None
    """A PEM file of the authorities to trust instead of the system's."""


@value
class DecisionPoint:
    """An AuthZEN decision point that is asked beside policy (AuthZEN Authorization API 1.0)."""

    url: str
    """Its identifier: what its own document says that it is."""
    token: str = field(default="", repr=False)
    """A bearer token; empty sends none."""
    ca_file: Path | None = None
    """A PEM file of the authorities to trust instead of the system's."""
    deadline: float = 0.25
    """Seconds that one answer may take."""
    subject: str = "user"
    """The type that it knows people by."""
    send: frozenset[str] = frozenset()
    """What it is told beside who calls what: `groups`, `arguments`, `label`."""


@value
class PolicySettings:
    """Where the policy is and who evaluates it. The times are in seconds."""

    path: str
    """A folder of Rego, a bundle (`.tar.gz`), or the `https://` URL of one."""
    engine: EngineKind = EngineKind.WASM
    server: OpaServer | None = None
    """For `engine: opa`; `None` has the gateway run its own."""
    verification_key: Path | None = None
    """A PEM public key. With it, only a bundle signed by its owner is accepted."""
    signing_algorithm: str = "RS256"
    deadline: float = 0.25
    """How long one decision may take before it is refused."""
    poll: float = 60.0
    """How often a URL or a central server is looked at again."""
    keep: Callable[[Any, Mapping[str, Any]], None] | None = None
    """Keeps the text of every policy that is put in force, with what the configuration tells it; `None` keeps none."""
    fuel: int = FUEL
    """Instructions of one evaluation by `WASM`."""

    @property
    def is_central(self) -> bool:
        """Whether the policy is somebody's OPA server's, and not here."""
        return self.engine is EngineKind.OPA and self.server is not None


@value
class PolicyEvent:
    """The policy in force changed, or could not be changed."""

    old: str
    """The digest before; empty at the first load."""
    new: str
    """The digest in force now: `old` again where the change was refused."""
    ok: bool
    problems: tuple[str, ...] = ()
    """Why a change was refused: `file:line: text`."""
    empty: bool = False
    """Whether what is in force says nothing about any decision."""
    notices: tuple[str, ...] = ()
    """What is remarkable about what is in force."""
    revision: int = 0
    """How often another policy came into force at all gateways together; 0 where there is one."""


OnChange = Callable[[PolicyEvent], None]
