"""Where the policy is, who evaluates it, and which candidate is asked beside it."""

from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import ValidationInfo, field_validator, model_validator

from gateway.config.section import Section, Word, written
from gateway.config.values import (
    Duration,
    Endpoint,
    LocalPath,
    PolicyPath,
    SecretReference,
    TrustedEndpoint,
)

T = TypeVar("T")


class Opa(Section):
    """The OPA server of `engine: opa`: one that runs already, or the gateway's own."""

    managed: bool = False
    url: Endpoint | None = None
    token: SecretReference | None = None
    """Sent as a bearer token."""
    ca: LocalPath | None = None
    """PEM file of the authority that signed the server's certificate."""

    @field_validator("url")
    @classmethod
    def _one_of_two(cls, url: str | None, info: ValidationInfo) -> str | None:
        if info.data.get("managed") is (url is not None):
            raise ValueError("give either `url` or `managed: true`")
        return url

    @field_validator("token", "ca")
    @classmethod
    def _of_a_server(cls, given: T, info: ValidationInfo) -> T:
        if given is not None and info.data.get("managed"):
            raise ValueError("is for `url` only; the gateway's own OPA has its own")
        return given


class AuthzenPoint(Section):
    """Somebody else's decision point, which has to allow what policy allows."""

    url: TrustedEndpoint
    """Its identifier: what its `/.well-known/authzen-configuration` says that it is."""
    token: SecretReference | None = None
    """Sent as a bearer token."""
    ca: LocalPath | None = None
    """PEM file of the authority that signed its certificate."""
    subject: Word = "user"
    """The type that it knows people by."""
    send: tuple[Literal["groups", "arguments", "label"], ...] = ()
    """What it is told beside who calls what, of which server."""
    deadline: Duration = written("250ms")
    """How long one answer may take before the call is refused."""


class Bundle(Section):
    """How a signed bundle in `policy.path` is verified and watched."""

    verification_key: LocalPath
    """PEM file of the public key that its signature must be made with."""
    algorithm: Literal["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"] = "RS256"
    poll: Duration = written("60s")


class Policy(Section):
    path: PolicyPath = written("./policies")
    """A folder of Rego, a bundle (`.tar.gz`), or the `https://` URL of one."""
    engine: Literal["wasm", "opa"] = "wasm"
    mode: Literal["enforce", "shadow"] = "enforce"
    """`shadow`: the policy in `path` decides as ever, and `candidate` is asked beside it."""
    candidate: LocalPath | None = None
    """A folder of Rego, or a bundle. Its answers are recorded and count for nothing."""
    opa: Opa | None = None
    bundle: Bundle | None = None
    authzen: AuthzenPoint | None = None
    """Asked about every call that policy does not refuse; both must allow it."""
    deadline: Duration = written("250ms")
    """How long one decision may take before it is refused."""

    @field_validator("candidate")
    @classmethod
    def _for_shadow(cls, candidate: Path | None, info: ValidationInfo) -> Path | None:
        if candidate is not None and info.data.get("mode") != "shadow":
            raise ValueError("is asked with `mode: shadow` only; write that, or remove it")
        return candidate

    @model_validator(mode="after")
    def _shadow_has_one(self) -> Self:
        if self.mode == "shadow" and self.candidate is None:
            raise ValueError("`mode: shadow` needs `candidate`: the policy to ask beside this one")
        return self

    @field_validator("opa")
    @classmethod
    def _belongs_to_its_engine(cls, opa: Opa | None, info: ValidationInfo) -> Opa | None:
        engine = info.data.get("engine")
        if engine == "opa" and opa is None:
            raise ValueError("`engine: opa` needs it; write `opa: {managed: true}` or give a url")
        if engine == "wasm" and opa is not None:
            raise ValueError("is for `engine: opa` only; remove it or change the engine")
        return opa
