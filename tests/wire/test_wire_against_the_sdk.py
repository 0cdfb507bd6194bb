"""Our own reading of a stateless request agrees with the SDK's."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    encode_header_value,
)
from mcp_types import version as sdk_versions

from gateway.errors import ProtocolError
from gateway.wire import rev_handshake, rev_stateless
from gateway.wire.headers import decode
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY
from gateway.wire.jsontext import WireLimits
from gateway.wire.revisions import REVISIONS, read_post
from tests.wire.posts import META, MODERN, body

VERSIONS = st.sampled_from([MODERN, "2099-01-01", "x"])
METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", "server/discover"])
NAMES = st.sampled_from(["a", "b", "é", "=?base64?YQ==?=", "=?base64?YR==?=", "=?base64?*?="])


def test_every_revision_the_sdk_knows_is_known():
    assert REVISIONS == sdk_versions.KNOWN_PROTOCOL_VERSIONS
    assert rev_handshake.REVISIONS == sdk_versions.HANDSHAKE_PROTOCOL_VERSIONS
    assert rev_stateless.REVISIONS == sdk_versions.MODERN_PROTOCOL_VERSIONS


def ours(headers: dict[str, str], content: bytes) -> int | None:
    pairs = [("content-type", "application/json"), *headers.items()]
    try:
        read_post(pairs, content, WireLimits())
    except ProtocolError as error:
        return error.rpc_code
    return None


SENT = st.fixed_dictionaries(
    {"mcp-protocol-version": VERSIONS},
    optional={
        "mcp-method": METHODS,
        "mcp-name": NAMES.filter(str.isascii) | NAMES.map(encode_header_value),
    },
)
ENVELOPE = st.fixed_dictionaries(
    {}, optional={MODERN_VERSION_KEY: VERSIONS, MODERN_CAPABILITIES_KEY: st.just({})}
)
WELL_FORMED = {
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": encode_header_value("é"),
}


@given(SENT, METHODS, NAMES, ENVELOPE)
@example(WELL_FORMED, "tools/call", "é", META)
@example(WELL_FORMED, "tools/call", "a", META)
@example(WELL_FORMED, "tools/list", "é", META)
def test_each_request_ends_on_the_same_rung(
    sent: dict[str, str], method: str, name: str, meta: dict[str, Any]
):
    content = body(method, {"name": name, "uri": name, "_meta": meta})
    verdict = classify_inbound_request(json.loads(content), headers=sent)
    theirs = verdict.code if isinstance(verdict, InboundLadderRejection) else None
    assert ours(sent, content) == theirs


@given(
    st.text(st.characters(exclude_categories=["Cs"])).map(encode_header_value) | NAMES | st.text()
)
def test_a_mirrored_header_decodes_alike(text: str):
    assert decode(text) == decode_header_value(text)
