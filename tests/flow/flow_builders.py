"""Sources, runs and rules for the tests of this room."""

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.domain.flow import FlowReview, Proof, Run, RunId, Source, Task
from gateway.domain.labels import (
    BOTTOM,
    Confidentiality,
    Effect,
    Integrity,
    Label,
    Tenant,
    ToolRule,
)
from gateway.domain.standing import StandingAnswer
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.flow.review import review
from gateway.flow.use import Knowledge, Use

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
    return Source(server="mail", tool=tool, record=f"r{record}", label=label)


def remember(
    provenance: Provenance,
    origin: Source,
    result: Mapping[str, Any],
    *,
    arguments: Mapping[str, Any] | None = None,
    effect: Effect | None = Effect.READ,
    typed: tuple[str, ...] = (),
    octets: int = 100,
    clean: bool = False,
    failed: bool = False,
) -> None:
    """Note that a call was sent, and keep its result."""
    given = {} if arguments is None else arguments
    provenance.sends(given, effect, clean=clean)
    provenance.remember(
        Answered(
            source=origin,
            effect=effect,
            arguments=given,
            said=given,
            content=result,
            octets=octets,
            typed=typed,
            clean=clean,
            failed=failed,
        )
    )


def wrote(provenance: Provenance, *texts: str) -> None:
    """Note a call that was led and carried `texts`; nothing is known of its answer."""
    provenance.sends({"body": list(texts)}, Effect.WRITE, clean=False)


def structured(content: Any) -> dict[str, Any]:
    return {"structuredContent": content}


def texts(*texts: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts]}


def reviewed(
    arguments: Mapping[str, Any],
    *,
    rule: ToolRule = SEND,
    effect: Effect | None = Effect.EGRESS,
    label: Label = BOTTOM,
    provenance: Provenance | None = None,
    prompt: str | None = None,
    tool: str = "send_email",
    answers: tuple[StandingAnswer, ...] = (),
    names: Iterable[str] = (),
) -> FlowReview:
    """Review a call of a tool whose definition names `names` as members of what its arguments hold."""
    held: dict[str, Any] = {"properties": {name: {} for name in names}}
    schema: dict[str, Any] = {"properties": dict.fromkeys(arguments, held) if names else {}}
    about = {"inputSchema": schema}
    return review(
        Run(id=RunId("r"), label=label),
        Use(server="mail", tool=tool, rule=rule, effect=effect, arguments=arguments, about=about),
        Knowledge(
            tenant=TENANT,
            task=None if prompt is None else Task(prompt=prompt),
            provenance=provenance or Provenance(),
            answers=answers,
        ),
    )


def proof_of(text: str, *, prompt: str | None = None, provenance: Provenance | None = None) -> str:
    """Return the proof of one destination, with `?` if an outsider may have chosen it."""
    (found,) = reviewed({"recipients": [text]}, prompt=prompt, provenance=provenance).destinations
    weak = found.proof is not Proof.NONE and found.integrity is Integrity.UNTRUSTED
    return f"{found.proof.value}{'?' * weak}"
