"""`douane check SERVER --for HOSTS`, for a person at a terminal and for a script."""

import pytest

from tests.admin.world import sighting
from tests.cli.world import Site

LONG = "a" * 90


@pytest.fixture
def approved(site: Site) -> Site:
    site.seen = [sighting("send"), sighting(LONG)]
    site.run("pins", "list")
    site.seen = ()
    site.run("pins", "approve", "mail", "send")
    return site


def test_what_is_not_approved_is_not_looked_at(approved: Site) -> None:
    told = approved.rows("check", "mail", "--for", "claude,vscode")
    assert {row["tool"] for row in told} == {"send"}
    assert {row["level"] for row in told} == {"warning"}


def test_what_was_revoked_is_not_looked_at(approved: Site) -> None:
    approved.run("pins", "approve", "mail", LONG)
    approved.run("pins", "revoke", "mail", LONG)
    told = approved.rows("check", "mail", "--for", "claude")
    assert {row["tool"] for row in told} == {"send"}


def test_an_error_is_exit_1_and_comes_with_its_source(approved: Site) -> None:
    approved.run("pins", "approve", "mail", LONG)
    told = approved.rows("check", "mail", "--for", "claude", exit_code=1)
    (row,) = [row for row in told if row["level"] == "error"]
    assert (row["host"], row["tool"], row["date"]) == ("claude", LONG, "2026-11-22")
    assert row["source"]
    table = approved.run("check", "mail", "--for", "claude")
    assert table.exit_code == 1
    assert table.stdout.splitlines()[0].split() == ["HOST", "LEVEL", "TOOL", "TEXT"]


def test_the_table_fits_eighty_columns_and_wide_it_is_whole(approved: Site) -> None:
    approved.run("pins", "approve", "mail", LONG)
    lines = approved.run("check", "mail", "--for", "claude,gemini").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    wide = approved.run("check", "mail", "--for", "claude,gemini", "--wide").stdout
    assert "\u2026" not in wide
    assert "anthropics/claude-code" in wide


def test_a_running_gateway_is_asked(approved: Site) -> None:
    with approved.running():
        assert approved.rows("check", "mail", "--for", "claude")


def test_a_host_without_trouble_is_said_to_have_none(approved: Site) -> None:
    result = approved.run("check", "mail", "--for", "vscode, cursor")
    assert (result.exit_code, result.stdout) == (
        0,
        "nothing is known to go wrong in vscode, cursor\n",
    )


def test_of_a_server_with_nothing_approved_nothing_can_be_said(site: Site) -> None:
    result = site.run("check", "mail", "--for", "claude")
    assert result.exit_code == 1
    assert "douane pins review mail" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("mail",), ("--for", "claude"), ("mail", "--for", "netscape"), ("mail", "--for", "")],
)
def test_half_a_question_and_an_unknown_host_are_wrong_use(
    approved: Site, arguments: tuple[str, ...]
) -> None:
    assert approved.run("check", *arguments).exit_code == 2
