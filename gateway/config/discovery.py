"""The section `discovery` of `douane.yaml`: how hosts find tools at `/mcp`, and how many they are shown."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from gateway.config.section import Section, Word, Words, written
from gateway.config.values import Duration, LocalPath, SecretReference, TrustedEndpoint, as_word

_NEEDED = {"hybrid": "model", "embedding": "model", "subagent": "subagent"}
"""What a strategy cannot do without."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise ValueError("write `sha256:` and the 64 hexadecimal digits of the file's digest")
    return text


Switch = Annotated[Literal["off", "auto", "on"], BeforeValidator(as_word)]


class Model(Section):
    """Weights of an embedding model, which the operator put there; nothing is ever fetched."""

    path: LocalPath
    """A folder with `model.safetensors` and `vocab.txt`."""
    digest: Annotated[str, AfterValidator(_digest)]
    """`sha256:...` of `model.safetensors`; another file is refused."""


class Subagent(Section):
    """An endpoint of the operator's that is asked which of the visible tools fit."""

    url: TrustedEndpoint
    """Requests and descriptions go there: https, or this machine."""
    token: SecretReference | None = None
    """Sent as a bearer token."""
    deadline: Duration = written("5s")


class ClientDiscovery(Section):
    """What is different for one client, by its name or id."""

    defer: Switch | None = None
    descriptions: Switch | None = None
    window: int | None = Field(default=None, ge=1_000, le=100_000_000)


class Descriptions(Section):
    """The tool-descriptions extension: brief lists, and whole definitions once they are read."""

    mode: Switch = "off"
    idle: Duration = written("1h")
    """After so long without use a definition has to be read again."""
    cleanup: Duration = written("10m")
    """How often what was not used for so long is forgotten."""


class Discovery(Section):
    model: Model | None = None
    subagent: Subagent | None = None
    strategy: Literal["keyword", "hybrid", "embedding", "subagent"] | None = None
    """How `search_tools` searches unless it is told; without a word, the best there is here."""
    defer: Switch = "auto"
    """Whether `tools/list` holds the core alone: `auto` if all of it would cost too much."""
    window: int = Field(default=200_000, ge=1_000, le=100_000_000)
    """Tokens that a host's model reads at once."""
    share: float = Field(default=3.0, gt=0, le=100)
    """Percent of the window that a whole list may cost before it is deferred."""
    core: Words = ()
    """Tools that are listed always, as `server__tool`."""
    descriptions: Descriptions = written({})
    priority: Words = ()
    """Servers whose tools an unqualified name means first, in this order."""
    clients: dict[Word, ClientDiscovery] = written({})

    @field_validator("strategy")
    @classmethod
    def _can_be_had(cls, strategy: str | None, info: ValidationInfo) -> str | None:
        # Answers by keyword would look like those of what was asked for.
        needed = _NEEDED.get(strategy or "")
        if needed is not None and info.data.get(needed) is None:
            raise ValueError(f"`{strategy}` needs `discovery.{needed}`; add it, or remove this")
        return strategy
