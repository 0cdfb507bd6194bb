"""Registering servers: tried first, written whole, taken up at once, and undone if that fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config import load
from gateway.config.registered import FILE
from gateway.errors import BadCommand, ConfigError, NotFound
from gateway.upstream.bounds import Bounds, EgressPolicy
from gateway.wiring.registration import Registration
from gateway.wiring.upstreams import upstreams_of

WEB = {"url": "https://web.example/mcp"}


class Place:
    def __init__(self, folder: Path) -> None:
        self.own = folder / "douane.yaml"
        self.own.write_text(
            "version: 1\npublic_url: http://127.0.0.1:8080\n"
            "servers:\n  mail: {url: 'http://127.0.0.1:9001/mcp'}\n"
        )
        (folder / "var").mkdir(mode=0o700)
        self.file = folder / "var" / FILE
        self.config = load(self.own)
        self.problem = ""
        self.registration = Registration(
            lambda: self.config, environ={"WEB": "token"}, take_up=self.take_up
        )

    async def take_up(self) -> None:
        if self.problem:
            raise ConfigError(self.problem)
        self.config = load(self.own)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_server_is_in_force_once_it_is_registered_and_gone_once_it_is_removed(
    place: Place,
) -> None:
    credential = {"kind": "header", "value": "env:WEB"}
    await place.registration.add("web", {**WEB, "credential": credential})
    assert sorted(place.config.servers) == ["mail", "web"]
    assert place.registration.names == {"web"}
    assert place.file.stat().st_mode & 0o777 == 0o600
    await place.registration.add("news", WEB)
    await place.registration.remove("web")
    assert sorted(place.config.servers) == ["mail", "news"]
    assert json.loads(place.file.read_text()) == {"servers": {"news": WEB}}


@pytest.mark.parametrize("name", ["mail", "web"])
async def test_a_name_is_given_once(place: Place, name: str) -> None:
    await place.registration.add("web", WEB)
    before = place.file.read_text()
    with pytest.raises(BadCommand, match=f"a server {name} already"):
        await place.registration.add(name, {"url": "http://127.0.0.1:9/mcp"})
    assert place.file.read_text() == before


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Web", WEB),
        ("../web", WEB),
        ("callback", WEB),
        ("web", {}),
        ("web", {"url": "file:///etc/passwd"}),
        ("web", {**WEB, "command": ["sh"]}),
        ("web", {**WEB, "credential": {"kind": "header", "value": "s3cret"}}),
        ("web", {**WEB, "credential": {"kind": "header", "value": "env:NOT_SET"}}),
        ("web", {**WEB, "credential": {"kind": "header", "value": "file:var/audit.key"}}),
    ],
)
async def test_what_the_configuration_could_not_have_is_not_written(
    place: Place, name: str, settings: dict[str, object]
) -> None:
    with pytest.raises(BadCommand) as caught:
        await place.registration.add(name, settings)
    assert "s3cret" not in str(caught.value)
    assert not place.file.exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/mcp",
        "https://[::1]/mcp",
        "http://169.254.169.254/latest",
        "https://10.0.0.1/mcp",
        "https://93.184.216.34:25/mcp",
        "http://93.184.216.34/mcp",
    ],
)
async def test_an_address_where_the_gateway_does_not_go_is_refused_at_once(
    place: Place, url: str
) -> None:
    with pytest.raises(BadCommand, match=r"egress\.allow"):
        await place.registration.add("web", {"url": url})
    assert not place.file.exists()


async def test_only_what_was_registered_has_bounds(place: Place) -> None:
    await place.registration.add("web", WEB)
    config = place.config
    assert config.registered == {"web"}
    by_name: dict[str, Any] = {one.server: one for one in await upstreams_of(config)}
    assert by_name["mail"].bounds is None
    assert by_name["web"].bounds == Bounds(policy=EgressPolicy.of(()))


async def test_what_cannot_be_put_in_force_is_undone(place: Place) -> None:
    place.problem = "no"
    with pytest.raises(ConfigError, match="no"):
        await place.registration.add("web", WEB)
    assert place.registration.names == frozenset()
    place.problem = ""
    await place.registration.add("web", WEB)
    place.problem = "no"
    with pytest.raises(ConfigError, match="no"):
        await place.registration.remove("web")
    assert place.registration.names == {"web"}


SAVED = json.dumps({"servers": {"theirs": WEB}})


async def test_what_somebody_saves_while_a_server_is_taken_up_is_not_taken_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def saved_and_refused() -> None:
        place.file.write_text(SAVED)
        raise ConfigError("it cannot be used")

    monkeypatch.setattr(place.registration, "_take_up", saved_and_refused)
    with pytest.raises(ConfigError, match="cannot be used"):
        await place.registration.add("web", WEB)
    assert place.file.read_text() == SAVED


async def test_what_somebody_saves_while_a_server_is_tried_is_not_written_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved(*_: Any) -> None:
        place.file.write_text(SAVED)

    monkeypatch.setattr("gateway.wiring.registration._admit", saved)
    with pytest.raises(BadCommand, match="changed meanwhile"):
        await place.registration.add("web", WEB)
    assert place.file.read_text() == SAVED


async def test_what_cannot_be_written_is_refused(place: Place) -> None:
    place.file.with_name(f"{FILE}.new").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        await place.registration.add("web", WEB)
    assert place.registration.names == frozenset()
    assert sorted(place.config.servers) == ["mail"]


async def test_only_what_is_registered_can_be_removed(place: Place) -> None:
    for name in ("mail", "web"):
        with pytest.raises(NotFound):
            await place.registration.remove(name)
    assert sorted(place.config.servers) == ["mail"]
