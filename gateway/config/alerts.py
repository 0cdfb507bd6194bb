"""The section `alerts` of `douane.yaml`: what is usual is learned, and who is told of what."""

import base64
import binascii
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from gateway.config.section import Section, written
from gateway.config.values import Duration, Secret, SecretRef, SecretReference, TrustedEndpoint

Event = Literal["approval", "drift", "anomaly", "policy", "audit"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_PREFIX = "whsec_"
_FEWEST_OCTETS, _MOST_OCTETS = 24, 64


def signing_key(secret: Secret) -> bytes:
    """Return the key of a webhook's secret, as Standard Webhooks spells it.

    Raises:
        ValueError: It is none.

    """
    text = secret.reveal()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not text.startswith(_PREFIX) or not _FEWEST_OCTETS <= len(key) <= _MOST_OCTETS:
        raise ValueError(
            f"write `{_PREFIX}` and the base64 of {_FEWEST_OCTETS} to {_MOST_OCTETS} random bytes: "
            f'`echo "{_PREFIX}$(openssl rand -base64 32)"`'
        )
    return key


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "a webhook's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"
        )
    return text


class Webhook(Section):
    shape: Literal["json", "slack", "teams"] = "json"
    """What the receiver understands: a chat shows a sentence, names and a link."""
    url: TrustedEndpoint
    path: SecretReference | None = None
    """What stands behind `url`, where that is a secret, as it is of chats' webhooks."""
    secret: SecretReference | None = Field(default=None, validate_default=True)
    """What deliveries are signed with; chats look at no signature."""
    events: Annotated[tuple[Event, ...], Field(min_length=1)]

    @field_validator("secret")
    @classmethod
    def _a_key(cls, ref: SecretRef | None, info: ValidationInfo) -> SecretRef | None:
        if ref is None:
            if info.data.get("shape") == "json":
                raise ValueError("is what its receiver knows the gateway by; name one")
            return None
        environ = (info.context or {}).get("environ")
        if environ is not None:
            signing_key(ref.resolve(environ))
        return ref


class Alerts(Section):
    baselines: Literal["learn", "off"] = "learn"
    """`off`: nothing is learned, and what was is forgotten."""
    learning: Duration = written("14d")
    """For how long somebody must be known before anything is told of them."""
    webhooks: dict[Annotated[str, AfterValidator(_name)], Webhook] = written({})
