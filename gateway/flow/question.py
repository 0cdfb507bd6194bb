"""What a review says, in the contract's form: policy input's `flow`."""

from typing import Any

from gateway.domain.flow import Destination, FlowReview, Match, Source


def flow_input(review: FlowReview) -> dict[str, Any]:
    """Return `review` as policy is told it."""
    return {
        "label": review.label.words,
        "sources": [_source(source) for source in review.sources],
        "destinations": [_destination(destination) for destination in review.destinations],
        "names_where": review.names_where,
        "payload": [
            {
                "path": payload.path,
                "matches": [_match(match) for match in payload.matches],
                "said": payload.said.value,
            }
            for payload in review.payload
        ],
        "links": [_destination(link) for link in review.links],
        "asked_for": review.asked_for,
        "told": None if review.told is None else review.told.value,
        "left_open": review.left_open,
        "unheard": review.unheard,
        "lasting": review.lasting,
        "at_home": review.at_home,
        "violations": [
            {"code": violation.code, "message": violation.message}
            for violation in review.violations
        ],
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "server": source.server,
        "tool": source.tool,
        "record": source.record,
        "label": source.label.words,
    }


def _destination(destination: Destination) -> dict[str, Any]:
    return {
        "path": destination.path,
        "value": destination.value,
        "form": destination.form.value,
        "proof": destination.proof.value,
        "integrity": destination.integrity.word,
        "from": destination.origin,
        "said": destination.said.value,
        "by": destination.by.value,
    }


def _match(match: Match) -> dict[str, Any]:
    return {
        "record": match.record,
        "kind": match.kind,
        "bytes": match.bytes,
        "decoded": match.decoded,
        "confidentiality": match.confidentiality.word,
    }
