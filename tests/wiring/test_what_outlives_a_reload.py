"""Whatever lasts as long as the process holds nothing that a reload changes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.config import Config, load
from gateway.config.section import Section
from gateway.policy import reload
from gateway.wiring import gateway as gateway_room
from gateway.wiring.foundation import open_store
from gateway.wiring.gateway import Gateway
from gateway.wiring.identity import Identity
from tests.docs.test_configuration_page import TABLE
from tests.policy.test_policy_saved_meanwhile import nothing_is_told
from tests.wiring.test_saved_while_a_reload_builds import Place, running

RENEWED = {"servers"}
"""Whose prices and levels of redaction a reload gives to what lasts."""
EACH = {
    "alerts": {
        "webhooks": {
            "ops": {"url": "https://hooks.example/x", "secret": "env:HOOK", "events": ["approval"]}
        }
    },
    "audit": {
        "export": {"siem": {"format": "jsonl", "file": "siem.jsonl"}},
        "checkpoints": {"file": "checkpoints"},
        "retention": {"keep": "30d"},
    },
}
"""All that has a part of the process's own."""


class Lasting:
    """A configuration of which only what needs a restart may be looked at."""

    def __init__(self, of: Section, before: str = "") -> None:
        self._of = of
        self._before = before

    def __getattr__(self, name: str) -> Any:
        key, found = self._before + name, getattr(self._of, name)
        if name not in type(self._of).model_fields or key in RENEWED:
            return found
        below = [row for each, row in TABLE.items() if each.startswith(f"{key}.")]
        if isinstance(found, Section) and any(row["reload"] == "no" for row in below):
            return Lasting(found, f"{key}.")
        assert TABLE[key]["reload"] == "no", f"a reload changes `{key}`, and this goes on with it"
        return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(reload, "awatch", nothing_is_told)
    monkeypatch.setenv("HOOK", "whsec_" + "a2tra2tra2tra2tra2tra2tra2tra2tr")
    return Place(tmp_path)


async def test_it_is_made_without_a_look_at_what_a_reload_changes(place: Place) -> None:
    place.write(**EACH)
    config = load(place.file)
    lasting = cast("Config", Lasting(config))
    async with open_store(config) as store:
        gateway = Gateway(lasting, place.file, await Identity.open(lasting, store))
        gateway._admin = cast("Any", SimpleNamespace(commands=None, people=None))
        async with gateway.recorded.running(), gateway.watch.running():
            assert len(gateway.recorded.followers) == 4
            gateway.admin_app()


async def test_proxies_that_are_trusted_no_more_name_nobody_to_administrators(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_room, "admin_app", dict)
    place.write(trusted_proxies=["192.0.2.0/24"])
    forged = {
        "client": ("192.0.2.1", 1),
        "headers": [(b"x-forwarded-for", b"198.51.100.7")],
    }
    async with running(place) as gateway:
        made = cast("dict[str, Any]", gateway.admin_app())
        told = made["client_address"], made["api"]._client_address
        assert [one(forged) for one in told] == ["198.51.100.7"] * 2
        place.write(trusted_proxies=[])
        await gateway.take_up()
        assert [one(forged) for one in told] == ["192.0.2.1"] * 2


async def test_a_question_is_told_of_as_long_as_it_waits_now(place: Place) -> None:
    place.write(**EACH)
    async with running(place) as gateway:
        webhook = gateway.recorded.alerting.told["ops"]
        assert (webhook._approval_s(), webhook._desk()) == (3600.0, "http://127.0.0.1:8080")
        place.write(approvals={"expire": "2h"}, console={"enabled": False})
        await gateway.take_up()
        assert (webhook._approval_s(), webhook._desk()) == (7200.0, "")


async def posted(gateway: Gateway, path: str, body: bytes, kind: str) -> int:
    """Post `body` from always the same address; return the status of the answer."""
    fields = {
        "host": "127.0.0.1:8080",
        "content-type": kind,
        "content-length": str(len(body)),
    }
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in fields.items()],
        "client": ("192.0.2.7", 5),
        "server": ("127.0.0.1", 8080),
        "root_path": "",
    }
    arriving, sent = [body], list[Any]()

    async def receive() -> Any:
        if not arriving:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": arriving.pop(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await gateway.serve(scope, receive, send)
    return int(sent[0]["status"])


FORM = "application/x-www-form-urlencoded"
GUESS = b"grant_type=client_credentials&client_id=c_1&client_secret=guessed"
CLIENT = b'{"client_name": "A", "redirect_uris": ["https://a.example/back"]}'


@pytest.mark.parametrize(
    ("path", "body", "kind", "allowed"),
    [
        ("/oauth/token", GUESS, FORM, 20),
        ("/oauth/register", CLIENT, "application/json", 60),
        ("/oauth/revoke", b"token=x&client_id=c_1&client_secret=guessed", FORM, 20),
        ("/oauth/device_authorization", b"client_id=c_1&client_secret=guessed", FORM, 20),
    ],
)
async def test_who_has_guessed_or_registered_too_often_has_after_a_reload(
    place: Place, path: str, body: bytes, kind: str, allowed: int
) -> None:
    async with running(place) as gateway:
        first = {await posted(gateway, path, body, kind) for _ in range(allowed)}
        assert 429 not in first
        assert await posted(gateway, path, body, kind) == 429
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        assert await posted(gateway, path, body, kind) == 429


async def test_whatever_else_is_counted_by_address_goes_on_to_count(place: Place) -> None:
    async with running(place) as gateway:
        known = dict(gateway._lasting.throttles._known)
        assert len(known) == 7
        place.write(tenant={"domains": ["second.example"]})
        await gateway.take_up()
        assert gateway._lasting.throttles._known == known
