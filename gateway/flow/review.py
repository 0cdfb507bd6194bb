"""What a call would move where. It reports; policy decides."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gateway.domain.document import leaves, member_path
from gateway.domain.flow import (
    Destination,
    FlowReview,
    Payload,
    Proof,
    Run,
    Source,
    Task,
    Violation,
)
from gateway.domain.labels import (
    Confidentiality,
    Effect,
    Integrity,
    Label,
    Tenant,
    ToolRule,
)
from gateway.flow import task as user_task
from gateway.flow.addresses import is_ours
from gateway.flow.fragments import LONGEST_SCANNED
from gateway.flow.provenance import Provenance
from gateway.flow.results import text_of

MOST_DESTINATIONS = 256
"""Values of one call; beyond them the call as a whole counts as unproven."""

MOST_PAYLOADS = 128
"""Leaves of one call that are compared with earlier results, together of about 64 KiB."""

UNPROVEN_DESTINATION = Violation(
    code="unproven_destination",
    message="nothing shows that a destination of this call is a good one",
)
UNTRUSTED_TO_SINK = Violation(
    code="untrusted_to_sink",
    message="untrusted data was read, and what this call affects does not come from a trusted source",
)
PRIVATE_TO_OUTSIDE = Violation(
    code="private_to_outside",
    message="private data was read, and this call may carry it to a destination that is not ours",
)

_CARRIES_OUT = frozenset({Effect.EGRESS, Effect.PAY, Effect.EXECUTE})
"""Effects that carry data out; a read does so as well if something says where it goes."""


def review(
    *,
    run: Run,
    rule: ToolRule,
    effect: Effect | None,
    arguments: Mapping[str, Any],
    provenance: Provenance,
    tenant: Tenant,
    task: Task | None,
) -> FlowReview:
    """Report what a call with `arguments` would move where.

    `effect` is `None` for what is no tool, which has neither destinations nor violations. `task`
    is what a trusted host declared, and `None` from any other. What `rule` does not name is not
    looked at: without destinations and payload this costs next to nothing.
    """
    destinations = (
        tuple(_destinations(rule, arguments, provenance, tenant, task)) if rule.destination else ()
    )
    return FlowReview(
        label=run.label,
        sources=run.sources,
        destinations=destinations,
        payload=tuple(_payload(rule, arguments, provenance)) if rule.payload else (),
        violations=_violations(run.label, effect, destinations),
    )


def _destinations(
    rule: ToolRule,
    arguments: Mapping[str, Any],
    provenance: Provenance,
    tenant: Tenant,
    task: Task | None,
) -> Iterator[Destination]:
    found = _named_leaves(rule.destination, arguments)
    for path, leaf in islice(found, MOST_DESTINATIONS):
        text = text_of(leaf)
        if text is None:
            # A flag that names whom a call affects: nothing can prove it.
            yield _unproven(path, str(leaf).lower())
        else:
            yield _destination(path, text, provenance, tenant, task)
    for path, _ in islice(found, 1):
        yield _unproven(path, "")


def _named_leaves(
    names: tuple[str, ...], arguments: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of the arguments called `names`. Null is what is not there."""
    for name in names:
        for path, leaf in leaves(arguments.get(name), member_path("$", name)):
            if leaf is not None:
                yield path, leaf


def _destination(
    path: str, text: str, provenance: Provenance, tenant: Tenant, task: Task | None
) -> Destination:
    if is_ours(text, tenant):
        return _proven(path, text, Proof.TENANT)
    if task is not None and task.prompt is not None and user_task.names(task.prompt, text):
        return _proven(path, text, Proof.TASK)
    found = provenance.proof_of(text)
    if found is None:
        return _unproven(path, text)
    proof, source = found
    return Destination(
        path=path,
        value=text,
        proof=proof,
        integrity=source.label.integrity,
        origin={"server": source.server, "tool": source.tool, "record": source.record},
    )


def _proven(path: str, text: str, proof: Proof) -> Destination:
    return Destination(path=path, value=text, proof=proof, integrity=Integrity.TRUSTED)


def _unproven(path: str, text: str) -> Destination:
    return Destination(path=path, value=text, proof=Proof.NONE, integrity=Integrity.UNTRUSTED)


def _payload(
    rule: ToolRule, arguments: Mapping[str, Any], provenance: Provenance
) -> Iterator[Payload]:
    left = LONGEST_SCANNED
    for path, leaf in islice(_named_leaves(rule.payload, arguments), MOST_PAYLOADS):
        text = text_of(leaf)
        if text is None or left <= 0:
            continue
        left -= len(text)
        matches = provenance.matches(text)
        if matches:
            yield Payload(path=path, matches=matches)


def _violations(
    label: Label, effect: Effect | None, destinations: tuple[Destination, ...]
) -> tuple[Violation, ...]:
    if effect is None:
        return ()
    named = bool(destinations)
    found = []
    if any(destination.proof is Proof.NONE for destination in destinations):
        found.append(UNPROVEN_DESTINATION)
    if label.integrity is Integrity.UNTRUSTED and effect is not Effect.READ:
        trusted = named and all(d.integrity is Integrity.TRUSTED for d in destinations)
        if not trusted:
            found.append(UNTRUSTED_TO_SINK)
    carries_out = effect in _CARRIES_OUT or (effect is Effect.READ and named)
    if label.confidentiality >= Confidentiality.PRIVATE and carries_out:
        ours = named and all(d.proof is Proof.TENANT for d in destinations)
        if not ours:
            found.append(PRIVATE_TO_OUTSIDE)
    return tuple(found)


def flow_input(review: FlowReview) -> dict[str, Any]:
    """Return `review` in the contract's form: policy input's `flow`."""
    return {
        "label": review.label.words,
        "sources": [_source_input(source) for source in review.sources],
        "destinations": [
            {
                "path": destination.path,
                "value": destination.value,
                "proof": destination.proof.value,
                "integrity": destination.integrity.word,
                "from": destination.origin,
            }
            for destination in review.destinations
        ],
        "payload": [
            {
                "path": payload.path,
                "matches": [
                    {"record": match.record, "kind": match.kind, "bytes": match.bytes}
                    for match in payload.matches
                ],
            }
            for payload in review.payload
        ],
        "violations": [
            {"code": violation.code, "message": violation.message}
            for violation in review.violations
        ],
    }


def _source_input(source: Source) -> dict[str, Any]:
    return {
        "server": source.server,
        "tool": source.tool,
        "record": source.record,
        "label": source.label.words,
    }
