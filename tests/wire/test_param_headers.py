"""`Mcp-Param-*` says what the arguments say."""

from typing import Any

import pytest

from gateway.domain.document import Document
from gateway.errors import ProtocolError
from gateway.wire.param_headers import require_params_agree


def tool(**properties: Any) -> Document:
    schema = {"type": "object", "properties": properties}
    return Document.of({"name": "t", "inputSchema": schema})


MIRRORED = tool(
    region={"type": "string", "x-mcp-header": "Region"},
    limit={"type": "integer", "x-mcp-header": "Limit"},
)
PLAIN = tool(region={"type": "string"})


@pytest.mark.parametrize(
    ("headers", "arguments"),
    [
        ([("mcp-param-region", "eu")], {"region": "eu"}),
        ([("mcp-param-region", "=?base64?w6k=?=")], {"region": "é"}),
        ([("mcp-param-limit", "42")], {"limit": 42}),
        ([("mcp-param-other", "x")], {}),
        ([], {}),
        ([], {"region": None}),
    ],
)
def test_headers_that_equal_their_arguments_pass(
    headers: list[tuple[str, str]], arguments: dict[str, Any]
):
    require_params_agree(headers, arguments, MIRRORED)


@pytest.mark.parametrize(
    ("headers", "arguments"),
    [
        ([("mcp-param-region", "eu-west-1")], {"region": "us-east-1"}),
        ([("mcp-param-region", "eu-west-1")], {}),
        ([], {"region": "us-east-1"}),
        ([("mcp-param-limit", "41")], {"limit": 42}),
        ([("mcp-param-region", "=?base64?*?=")], {"region": "eu"}),
    ],
)
def test_p13_headers_that_differ_from_their_arguments_are_refused(
    headers: list[tuple[str, str]], arguments: dict[str, Any]
):
    with pytest.raises(ProtocolError) as caught:
        require_params_agree(headers, arguments, MIRRORED, rpc_id=4)
    assert (caught.value.status, caught.value.rpc_code, caught.value.rpc_id) == (400, -32020, 4)


def test_an_annotation_is_found_however_it_is_written():
    hidden = MIRRORED.text.replace("x-mcp-header", "x-mcp-he\\u0061der")
    with pytest.raises(ProtocolError):
        require_params_agree([], {"region": "eu"}, Document(hidden))


def test_a_tool_that_mirrors_nothing_asks_for_nothing():
    require_params_agree([("mcp-param-region", "x")], {"region": "eu"}, PLAIN)
