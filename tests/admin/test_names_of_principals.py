"""What a page calls whoever a call is for: nobody is called by a piece of their `sub`."""

import pytest

from gateway.admin.names import Names

HOST = {"client_id": "c_1", "name": "Claude", "kind": "document", "grants": ["authorization_code"]}
ROBOT = {
    "client_id": "c_2",
    "name": "robot",
    "kind": "registered",
    "grants": ["client_credentials"],
}
NAMES = Names([HOST, ROBOT])


@pytest.mark.parametrize(
    ("principal", "shown"),
    [
        ("emma", "emma"),
        ("c_2", "robot"),
        ("https://idp.example|emma", "emma"),
        ("https://idp.example|auth0|emma", "auth0|emma"),
        ("https://idp.example|emma|c_1", 'emma via "Claude" (c_1)'),
        ("https://idp.example|auth0|emma|c_1", 'auth0|emma via "Claude" (c_1)'),
        ("https://idp.example|c_2", "robot"),
        ("mallory|emma", "mallory|emma"),
        ("mallory|emma|c_1", "mallory|emma|c_1"),
        (None, None),
    ],
)
def test_of_a_principal_its_issuer_alone_is_left_out(principal: str | None, shown: str) -> None:
    assert NAMES.principal(principal) == shown


def test_a_sub_is_shown_as_it_stands() -> None:
    assert NAMES.subject("https://idp.example|emma") == "https://idp.example|emma"
    assert (NAMES.subject("auth0|emma"), NAMES.subject("c_2")) == ("auth0|emma", "robot")
