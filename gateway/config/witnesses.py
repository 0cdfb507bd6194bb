"""Who cosigns the log's checkpoints."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator, WithJsonSchema

from gateway.audit.cosignature import WitnessKey
from gateway.config.section import Section, written
from gateway.config.values import Duration, TrustedEndpoint

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "a witness's name is 1 to 32 of a-z, 0-9, `_`, `-`, and begins with a-z or 0-9"
        )
    return text


def _key(text: Any) -> str:
    return str(WitnessKey.parse(text if isinstance(text, str) else ""))


def _prefix(url: str) -> str:
    if "?" in url:
        raise ValueError("a witness's submission prefix has no query")
    return url


def _one_each(witnesses: "Witnesses") -> "Witnesses":
    if len({one.key for one in witnesses.values()}) < len(witnesses):
        raise ValueError("two witnesses have the same key; name each one once")
    return witnesses


class Witness(Section):
    """A witness as C2SP tlog-witness says."""

    url: Annotated[TrustedEndpoint, AfterValidator(_prefix)]
    """Its submission prefix."""
    key: Annotated[str, PlainValidator(_key), WithJsonSchema({"type": "string"})]
    """Its public key, as C2SP tlog-cosignature spells it."""
    every: Duration = written("1m")
    """It is asked at most so often."""


Witnesses = dict[Annotated[str, AfterValidator(_name)], Witness]
OneEach = Annotated[Witnesses, AfterValidator(_one_each)]
