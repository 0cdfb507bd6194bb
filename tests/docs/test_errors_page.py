"""docs/errors.md and the code name the same codes, with the same numbers."""

import re

import gateway.errors
from gateway.errors import GatewayError
from gateway.oauth.errors import ErrorCode, OAuthError
from gateway.signin.errors import SignInRefused
from gateway.web.forms import BadForm
from gateway.wire import jsonrpc
from gateway.wire.replies import CODES
from tests.docs.pages import ROOT, prose, rows

PAGE = ROOT / "docs" / "errors.md"
TOLD = {row["code"].strip("`"): row for row in rows(PAGE, "code")}
BASES = {"error", "refused"}
"""Codes of classes that are never raised themselves."""


def _codes() -> set[str]:
    classes = [
        found
        for found in vars(gateway.errors).values()
        if isinstance(found, type) and issubclass(found, GatewayError)
    ]
    return {found.code for found in classes}


def test_every_code_of_a_refusal_has_its_row_with_its_numbers() -> None:
    on_the_page = {
        code: (int(row["status"]), int(row["JSON-RPC"]))
        for code, row in TOLD.items()
        if "JSON-RPC" in row
    }
    in_the_code = {code: (told.status, told.rpc_code) for code, told in CODES.items()}
    assert on_the_page == in_the_code


def test_every_code_that_can_be_raised_is_on_the_page() -> None:
    text = prose(PAGE)
    missing = [code for code in _codes() - BASES if f"`{code}`" not in text]
    assert missing == []


def test_every_refusal_says_what_a_person_does() -> None:
    assert all(row["what a person does"] for row in TOLD.values() if "JSON-RPC" in row)


def test_every_refusal_before_the_body_is_read_has_its_row() -> None:
    raised: dict[str, int] = {}
    for name in ("guard.py", "mcp.py", "own_words.py"):
        text = (ROOT / "gateway" / "web" / name).read_text()
        for status, code in re.findall(r'Refused\(\s*status=(\d+),\s*code="(\w+)"', text):
            raised[code] = int(status)
    rpc_less = [row for row in rows(PAGE, "code") if "JSON-RPC" not in row]
    told = {row["code"].strip("`"): int(row["status"]) for row in rpc_less}
    assert raised == {code: status for code, status in told.items() if status > 2}


def test_every_error_of_the_token_endpoint_has_its_row() -> None:
    told = {row["error"].strip("`"): int(row["status"]) for row in rows(PAGE, "error")}
    assert told == {code.value: code.status for code in ErrorCode}
    assert OAuthError.code not in TOLD  # it never leaves under its own name


def test_every_refusal_of_a_page_has_its_row() -> None:
    told = {row["page"].strip("`"): row["status"].split(",")[0] for row in rows(PAGE, "page")}
    pages: list[type[SignInRefused]] = [SignInRefused, *SignInRefused.__subclasses__()]
    expected = {page.code: str(page.status) for page in pages}
    assert told == {**expected, BadForm.code: str(BadForm("").status)}


def test_every_json_rpc_code_of_the_protocol_has_its_row() -> None:
    told = {int(row["JSON-RPC"]) for row in rows(PAGE, "JSON-RPC")}
    ours = {
        number
        for name, number in vars(jsonrpc).items()
        if name.isupper() and isinstance(number, int) and number < 0
    }
    assert told == ours - {jsonrpc.INTERNAL_ERROR}
    assert str(jsonrpc.INTERNAL_ERROR) in prose(PAGE)
