"""Sources, runs and rules for the tests of this room."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.flow import FlowReview, Run, RunId, Source, Task
from gateway.domain.labels import (
    BOTTOM,
    Confidentiality,
    Effect,
    Integrity,
    Label,
    Tenant,
    ToolRule,
)
from gateway.flow.provenance import Provenance
from gateway.flow.review import review

TRUSTED = Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PRIVATE)
UNTRUSTED = Label(integrity=Integrity.UNTRUSTED, confidentiality=Confidentiality.PRIVATE)

TENANT = Tenant(
    self_=frozenset({"emma@home.example", "DE89370400440532013000"}),
    domains=frozenset({"example.com"}),
    members=frozenset({"alice"}),
    channels=frozenset({"general"}),
)

SEND = ToolRule(destination=("recipients", "cc"), payload=("subject", "body"))


def source(label: Label, record: int = 7, tool: str = "search") -> Source:
    return Source(server="mail", tool=tool, record=record, label=label)


def remember(
    provenance: Provenance,
    origin: Source,
    result: Mapping[str, Any],
    *,
    typed: tuple[str, ...] = (),
    arguments: Mapping[str, Any] | None = None,
    octets: int = 100,
) -> None:
    provenance.remember(
        origin,
        typed=typed,
        arguments={} if arguments is None else arguments,
        result=result,
        octets=octets,
    )


def structured(content: Any) -> dict[str, Any]:
    return {"structuredContent": content}


def reviewed(
    arguments: Mapping[str, Any],
    *,
    rule: ToolRule = SEND,
    effect: Effect | None = Effect.EGRESS,
    label: Label = BOTTOM,
    provenance: Provenance | None = None,
    prompt: str | None = None,
) -> FlowReview:
    return review(
        run=Run(id=RunId("r"), label=label),
        rule=rule,
        effect=effect,
        arguments=arguments,
        provenance=provenance or Provenance(),
        tenant=TENANT,
        task=None if prompt is None else Task(prompt=prompt),
    )


def proof_of(text: str, *, prompt: str | None = None) -> str:
    (destination,) = reviewed({"recipients": [text]}, prompt=prompt).destinations
    return destination.proof.value
