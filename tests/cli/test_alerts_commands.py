"""`douane alerts`: webhooks, a test that is taken or not, and how much is known."""

import pytest

from tests.admin import world
from tests.cli.world import Site


def test_webhooks_are_listed(site: Site) -> None:
    (row,) = site.rows("alerts", "list")
    assert row["webhook"] == "ops"
    assert row["failing"] == "it answers with status 500"
    assert "hooks.example.com" in site.run("alerts", "list").stdout


def test_how_much_is_known_is_told(site: Site) -> None:
    assert site.rows("alerts", "state") == [{"view": "principal", "known": 3, "learned": 1}]


def test_a_test_that_is_taken_exits_with_0(site: Site) -> None:
    assert site.rows("alerts", "test", "ops") == [{"webhook": "ops", "status": 204}]


def test_a_test_that_is_not_taken_exits_with_1(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(self: world.Alerting, name: str) -> int:
        del self, name
        return 500

    monkeypatch.setattr(world.Alerting, "ping", refuses)
    result = site.run("alerts", "test", "ops")
    assert result.exit_code == 1
    assert "it answers with status 500" in result.output


def test_a_webhook_that_is_not_there_exits_with_1(site: Site) -> None:
    result = site.run("alerts", "test", "none")
    assert result.exit_code == 1
    assert "no webhook of this name" in result.output
