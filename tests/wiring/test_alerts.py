"""What is learned, who is told and where they may be, by the configuration."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.behaviour.deviations import Deviation, Kind, Subject, View
from gateway.config import Config, parse
from gateway.errors import AuditUnavailable, EgressRefused, NotFound
from gateway.storage.baselines import FOLLOWER, DurableBaselines
from gateway.storage.database import DATABASE
from gateway.storage.store import Store
from gateway.web.metrics import Metrics
from gateway.wiring.alerts import deviation_sink, from_now, webhooks_of
from gateway.wiring.exporting import configured_in
from gateway.wiring.foundation import now
from gateway.wiring.recorded import recorded

DEVIATION = Deviation(
    kind=Kind.RATE,
    subject=Subject(view=View.PRINCIPAL, principal="emma"),
    time=now(),
    leaf_index=1,
    record="r1",
    message="",
    usual={},
    seen=1,
    cases=(),
)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def config(alerts: str) -> Config:
    text = f"version: 1\npublic_url: http://127.0.0.1:8080\nalerts: {alerts}\n"
    return parse(text, file=Path("/etc/douane.yaml"))


def hook(url: str) -> Config:
    return config(f"{{webhooks: {{ops: {{url: '{url}', secret: 'env:HOOK', events: [audit]}}}}}}")


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data", clock=lambda: 1.0)
    yield opened
    await opened.close()


async def test_what_was_learned_is_forgotten_where_nobody_wants_it(store: Store) -> None:
    kept = DurableBaselines(store.writer)
    await kept.keep(7, {'["all"]': b"[]"})
    followers = recorded(lambda: config("{baselines: off}"), store, Metrics())
    assert [one.name for one in followers.followers] == []
    async with followers.running():
        assert await kept.kept() == (None, [])


async def test_without_a_word_behaviour_is_followed_and_nobody_is_told(store: Store) -> None:
    followers = recorded(lambda: config("{}"), store, Metrics())
    assert [one.name for one in followers.followers] == [FOLLOWER]
    assert followers.alerting.webhooks() == []
    assert configured_in(config("{}")) == {FOLLOWER}


async def test_a_log_that_cannot_be_read_ends_no_follower(store: Store) -> None:
    (store.data_dir / DATABASE).rename(store.data_dir / "elsewhere")
    with pytest.raises(AuditUnavailable):
        await from_now(store).cursor("webhook ops")
    told = deviation_sink(config("{}"), store, Metrics())
    told._untold.append(DEVIATION)
    with pytest.raises(AuditUnavailable):
        await told.deliver([])


async def test_every_webhook_follows_under_a_name_of_its_own(store: Store) -> None:
    found = hook("https://hooks.example/x")
    followers = recorded(lambda: found, store, Metrics())
    assert [one.name for one in followers.followers] == [FOLLOWER, "webhook ops"]
    assert configured_in(found) == {FOLLOWER, "webhook ops"}
    assert followers.alerting.webhooks() == [
        {
            "webhook": "ops",
            "host": "hooks.example",
            "events": ["audit"],
            "waiting": 0,
            "failing": "",
        }
    ]
    with pytest.raises(NotFound):
        await followers.alerting.ping("none")


@pytest.mark.parametrize("url", ["https://10.0.0.1/x", "https://169.254.169.254/latest"])
async def test_a_webhook_leads_to_no_address_that_is_not_public(url: str) -> None:
    (webhook,) = webhooks_of(lambda: hook(url), Metrics()).values()
    with pytest.raises(EgressRefused):
        await webhook.send("id", b"{}")


def test_every_kind_of_deviation_is_counted_from_the_start(store: Store) -> None:
    metrics = Metrics()
    recorded(lambda: config("{}"), store, metrics)
    page = metrics.page().decode()
    for kind in ("rate", "tool", "destination", "refusals", "hour"):
        assert f'douane_deviations_total{{kind="{kind}"}} 0.0' in page
