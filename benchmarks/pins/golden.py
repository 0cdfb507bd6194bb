"""Golden pairs of definitions: what must look the same, what must not, what must be refused."""

from collections.abc import Mapping

from gateway.domain.document import Document
from gateway.domain.tools import Kind, Manifest, Profile, UpstreamId
from gateway.pins.catalog import read_list
from gateway.pins.diff import classify


def failure_of(pair: Mapping[str, str | None]) -> str | None:
    """Return what is wrong with how `a` is told from `b`, or `None`.

    `expect` is `same`, `diff` or `reject`; `tier` begins with the tier of a `diff`.
    """
    found = _verdict(str(pair["a"]), str(pair.get("b") or pair["a"]))
    expected = str(pair["expect"])
    if expected == "diff":
        expected = f"diff {str(pair.get('tier') or '')[:2]}".strip()
    if found == expected or (expected == "diff" and found.startswith("diff")):
        return None
    return f"vector {pair['id']}: {found}, where {expected} is expected"


def _verdict(a: str, b: str) -> str:
    after, before = read(a), read(b)
    if after is None or before is None:
        return "reject"
    if after.digest == before.digest:
        return "same"
    return f"diff {classify(before, after).tier}"


def read(text: str) -> Manifest | None:
    """Return the definition, or `None` if it cannot be pinned."""
    try:
        content = Document(text).content
    except ValueError:
        return None
    reading = read_list(UpstreamId("golden"), Profile.MODERN, Kind.TOOL, [content], "1")
    return reading.manifests[0] if reading.manifests else None
