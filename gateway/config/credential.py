"""The section `servers.NAME.credential`: what the gateway shows to an upstream."""

from typing import Literal, TypeVar

from pydantic import ValidationInfo, field_validator

from gateway.config.section import Section, Word, Words
from gateway.config.values import Issuer, SecretReference, TrustedEndpoint
from gateway.upstream.headers import is_ours

T = TypeVar("T")


class Credential(Section):
    """What the gateway shows to an upstream: never the token that a client showed to us."""

    kind: Literal["none", "header", "oauth", "exchange"] = "none"
    name: str = "Authorization"
    value: SecretReference | None = None
    scopes: Words = ()
    """What to ask the upstream's authorization server for; without it, what its challenge names."""
    client_id: Word | None = None
    """Our registration there; without it we register ourselves."""
    client_secret: SecretReference | None = None
    issuer: Issuer | None = None
    """The one authorization server to accept; without it, the first that the upstream names."""
    resource: bool = True
    """Whether its authorization server takes the `resource` parameter (RFC 8707)."""
    dpop: bool = False
    """Whether tokens of its authorization server are bound to a key of ours (RFC 9449)."""
    token_url: TrustedEndpoint | None = None
    """Where `exchange` trades a person's identity for a token (RFC 8693)."""
    audience: Word | None = None
    """The `audience` that `exchange` asks for."""

    @field_validator("name")
    @classmethod
    def _a_header_of_its_own(cls, name: str) -> str:
        if not is_ours(name.lower()):
            raise ValueError(f"`{name}` cannot carry a credential; use `Authorization` or another")
        return name

    @field_validator("value")
    @classmethod
    def _only_in_a_header(
        cls, ref: SecretReference | None, info: ValidationInfo
    ) -> SecretReference | None:
        kind = info.data.get("kind")
        if kind == "header" and ref is None:
            raise ValueError("`kind: header` needs it; write `env:NAME` or `file:PATH`")
        if kind != "header" and ref is not None:
            raise ValueError("is for `kind: header` only; remove it or change the kind")
        return ref

    @field_validator("scopes", "client_id", "client_secret")
    @classmethod
    def _of_an_authorization_server(cls, given: T, info: ValidationInfo) -> T:
        kind = info.data.get("kind")
        if given and kind not in {"oauth", "exchange"}:
            raise ValueError("is for `kind: oauth` and `exchange`; remove it or change the kind")
        if kind == "exchange" and given is None:
            raise ValueError("`kind: exchange` needs it; register the gateway at `token_url`")
        alone = kind == "oauth" and info.data.get("client_id", "") is None
        if info.field_name == "client_secret" and given and alone:
            raise ValueError("goes with `client_id`; add it, or remove this")
        return given

    @field_validator("issuer")
    @classmethod
    def _that_knows_us(cls, issuer: str | None, info: ValidationInfo) -> str | None:
        oauth = info.data.get("kind") == "oauth"
        if oauth and issuer is None and info.data.get("client_id") is not None:
            # The upstream would choose who is shown the secret.
            raise ValueError("goes with `client_id`; write the issuer that registered it")
        if not oauth and issuer is not None:
            raise ValueError("is for `kind: oauth` only; remove it or change the kind")
        return issuer

    @field_validator("resource")
    @classmethod
    def _where_tokens_are_asked_for(cls, resource: bool, info: ValidationInfo) -> bool:
        if not resource and info.data.get("kind") not in {"oauth", "exchange"}:
            raise ValueError("is for `kind: oauth` and `exchange`; remove it or change the kind")
        return resource

    @field_validator("dpop")
    @classmethod
    def _of_connected_accounts(cls, dpop: bool, info: ValidationInfo) -> bool:
        if dpop and info.data.get("kind") != "oauth":
            raise ValueError("is for `kind: oauth` only; remove it or change the kind")
        return dpop

    @field_validator("token_url")
    @classmethod
    def _where_to_exchange(cls, url: str | None, info: ValidationInfo) -> str | None:
        exchanges = info.data.get("kind") == "exchange"
        if exchanges and url is None:
            raise ValueError("`kind: exchange` needs it; write the URL of the token endpoint")
        if not exchanges and url is not None:
            raise ValueError("is for `kind: exchange` only; remove it or change the kind")
        return url

    @field_validator("audience")
    @classmethod
    def _of_an_exchange(cls, audience: str | None, info: ValidationInfo) -> str | None:
        if audience is not None and info.data.get("kind") != "exchange":
            raise ValueError("is for `kind: exchange` only; remove it or change the kind")
        return audience
