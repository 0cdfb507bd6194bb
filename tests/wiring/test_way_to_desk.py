"""Where a first password leads: to the desk whoever has one, and nobody else learns of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.admin.person import Person, Role
from gateway.config import parse
from gateway.wiring.desk import way_to_desk

HEAD = "version: 1\npublic_url: https://gw.example\nadmin_listen: 127.0.0.1:9081\nservers: {}\n"
APART = "console: {listen: '127.0.0.1:9443', url: 'https://desk.example'}\n"


def way(console: str = "", *roles: Role, commands: Any = dict) -> str:
    config = parse(HEAD + console, file=Path("douane.yaml"))
    lasting: Any = SimpleNamespace(commands=commands)
    user: Any = object()
    person = Person(name="user:emma", roles=frozenset(roles))
    return way_to_desk(config, lasting, lambda _: person)(user)


def test_whoever_has_a_role_is_led_to_the_desk_and_nobody_else() -> None:
    for role in (Role.APPROVER, Role.AUDITOR, Role.ADMIN):
        assert way("", Role.USER, role) == "/desk"
    assert way("", Role.USER) == way("") == ""


@pytest.mark.parametrize(
    ("console", "commands", "expected"),
    [
        (APART, dict, "https://desk.example/desk/enter?to=%2Fdesk"),
        ("console: {enabled: false}\n", dict, ""),
        ("", None, ""),
    ],
)
def test_it_leads_to_where_the_desk_is(console: str, commands: Any, expected: str) -> None:
    assert way(console, Role.ADMIN, commands=commands) == expected
