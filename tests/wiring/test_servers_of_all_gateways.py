"""Servers that are registered at all gateways: agreed on before they are taken up, and named by what they are."""

from functools import partial
from pathlib import Path

import pytest

from gateway.config import load
from gateway.config.registered import with_server
from gateway.domain.roster import Roster, named, parts, tag
from gateway.errors import BadCommand, ConfigError, NotFound
from gateway.policy.texts import servers_in, spelled, with_servers
from gateway.storage.kek import new_key
from gateway.wiring.reading import Reading
from gateway.wiring.registration import Nowhere, SharedRegistration, tried
from gateway.wiring.settings import known_as, policy_data

WEB = {"url": "https://web.example/mcp"}
OTHER = {"url": "https://other.example/mcp"}
SHARED = """\
version: 1
public_url: http://127.0.0.1:8080
auth: {key_encryption_key: env:KEK}
storage: {kind: postgres, url: env:DATABASE}
servers: {mail: {url: "http://127.0.0.1:9001/mcp"}}
"""
ENVIRON = {"KEK": new_key(), "DATABASE": "dbname=douane"}


class Gateway:
    """One of them, whose others agree to everything unless there is a `problem`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "douane.yaml"
        self.file.write_text(SHARED)
        self.roster = Roster(b"key")
        self.problem = ""
        self.config = load(self.file)
        self.registration = SharedRegistration(
            lambda: self.config,
            environ={**ENVIRON, "WEB": "token"},
            take_up=self.take_up,
            roster=self.roster,
            agree=self.agree,
        )

    async def agree(self, before: str, after: str) -> None:
        assert before == self.roster.text
        if self.problem:
            raise ConfigError(self.problem)
        self.roster.put(after)

    async def take_up(self) -> None:
        self.config = load(self.file, registered=self.roster.text)


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


async def test_what_all_agree_on_is_in_force_and_in_no_file(gateway: Gateway) -> None:
    await gateway.registration.add("web", WEB)
    assert sorted(gateway.config.servers) == ["mail", "web"]
    assert gateway.config.registered == gateway.registration.names == {"web"}
    assert policy_data(gateway.config)["servers"] == ["mail"]
    await gateway.registration.add("news", WEB)
    await gateway.registration.remove("web")
    assert sorted(gateway.config.servers) == ["mail", "news"]
    assert list(gateway.file.parent.iterdir()) == [gateway.file]


async def test_what_one_of_them_could_not_have_is_registered_nowhere(gateway: Gateway) -> None:
    gateway.problem = "r1/2: servers.yaml:3: `WEB` is not set"
    with pytest.raises(ConfigError, match="is not set"):
        await gateway.registration.add("web", WEB)
    assert (gateway.roster.text, sorted(gateway.config.servers)) == ("", ["mail"])


async def test_a_name_is_given_once_also_where_it_is_not_taken_up_yet(gateway: Gateway) -> None:
    await gateway.registration.add("web", WEB)
    gateway.config = load(gateway.file)
    for name in ("mail", "web"):
        with pytest.raises(BadCommand, match=f"a server {name} already"):
            await gateway.registration.add(name, OTHER)
    assert gateway.roster.servers == {"web": WEB}


async def test_what_needs_a_restart_here_is_agreed_on_by_nobody(gateway: Gateway) -> None:
    gateway.file.write_text(SHARED.replace(":8080", ":8081"))
    with pytest.raises(ConfigError, match="restart"):
        await gateway.registration.add("web", WEB)
    assert gateway.roster.text == ""


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({**WEB, "credential": {"kind": "header", "value": "env:NOT_SET"}}, "NOT_SET"),
        ({"url": "http://127.0.0.1:9/mcp"}, "egress.allow"),
        ({**WEB, "command": ["sh"]}, "command"),
    ],
)
async def test_what_another_registers_is_held_to_what_is_so_here(
    gateway: Gateway, settings: dict[str, object], problem: str
) -> None:
    admit = partial(
        tried,
        current=lambda: gateway.config,
        environ=ENVIRON,
        file=gateway.file,
    )
    admit(with_server(None, gateway.file, "web", WEB))
    with pytest.raises(ConfigError) as found:
        admit(with_server(None, gateway.file, "web", settings))
    assert problem in "; ".join((found.value.public, *found.value.problems))


async def test_while_no_gateway_runs_none_could_say_if_it_takes_it_up() -> None:
    for act in (Nowhere().add("web", WEB), Nowhere().remove("web")):
        with pytest.raises(BadCommand, match="start the gateway first"):
            await act


async def test_a_reading_is_of_what_is_registered_at_that_moment(gateway: Gateway) -> None:
    await gateway.registration.add("web", WEB)
    reading = Reading(gateway.file, gateway.config, gateway.roster)
    assert reading.config(ENVIRON).registered == {"web"}
    assert reading.still_is()
    gateway.roster.put("")
    assert not reading.still_is()


async def test_a_call_is_of_what_was_taken_up_only_while_that_is_registered(
    gateway: Gateway,
) -> None:
    await gateway.registration.add("web", WEB)
    name = known_as(gateway.config, gateway.roster)
    both = named("sha256:1", gateway.roster.text)
    assert [name("sha256:1", server) for server in ("web", "mail", "")] == [both] * 3
    await gateway.registration.add("news", WEB)
    newer = named("sha256:1", gateway.roster.text)
    assert [name("sha256:1", server) for server in ("web", "mail")] == [newer] * 2 != [both] * 2
    await gateway.registration.remove("web")
    assert [bool(name("sha256:1", server)) for server in ("web", "mail")] == [False, True]
    await gateway.registration.add("web", OTHER)
    assert name("sha256:1", "web") == ""
    assert known_as(gateway.config, gateway.roster)("sha256:1", "web")
    assert known_as(gateway.config, None)("sha256:1", "web") == "sha256:1"


async def test_nobody_is_there_to_be_found_by_a_name_that_is_not_registered(
    gateway: Gateway,
) -> None:
    with pytest.raises(NotFound, match=r"douane\.yaml"):
        await gateway.registration.remove("mail")


def test_a_file_of_one_gateway_registers_nothing_where_gateways_share_a_database(
    tmp_path: Path,
) -> None:
    gateway, data = Gateway(tmp_path), tmp_path / "var"
    data.mkdir()
    (data / "servers.yaml").write_text('{"servers": {"web": {"url": "https://web.example/mcp"}}}')
    with pytest.raises(ConfigError) as found:
        load(gateway.file)
    (problem,) = found.value.problems
    assert problem.startswith(f"{data}/servers.yaml:1: servers.web: with `storage.kind: postgres`")
    assert sorted(load(gateway.file, registered="").servers) == ["mail"]


def test_a_policy_with_what_is_registered_has_a_name_of_both() -> None:
    assert named("p", "") == "p"
    assert named("", "x") == ""
    assert parts(named("p", "x")) == ("p", tag("x"))
    assert tag("x") != tag("y")
    text = with_servers(spelled(None, {}), "x")
    assert (servers_in(text), servers_in(spelled(None, {}))) == ("x", "")
    for none in (b"", spelled(None, {})[:-9], with_servers(text, 7)):  # type: ignore[arg-type]
        with pytest.raises(ConfigError):
            servers_in(none)


@pytest.mark.parametrize("of", ["", "x", '{"servers": {}}', "a b"])
def test_what_is_registered_is_vouched_for_by_a_gateways_key(of: str) -> None:
    told = Roster(b"key").vouched(of)
    assert Roster(b"key").opened(told) == of
    for forged in (f"{told}y", of and f" {of}", told.replace(" ", "  ", 1) if of else " x"):
        if forged:
            with pytest.raises(ConfigError, match="none of these gateways"):
                Roster(b"key").opened(forged)
    if of:
        with pytest.raises(ConfigError):
            Roster(b"another").opened(told)


def test_whoever_is_told_of_what_is_registered_is_told_of_another_text_only() -> None:
    roster, told = Roster(b"key"), []
    roster.changed = lambda: told.append(dict(roster.servers))
    for text in ('{"servers": {"web": {}}}', '{"servers": {"web": {}}}', "no JSON", "[]", "{}"):
        roster.put(text)
    assert told == [{"web": {}}, {}, {}, {}]
    roster.stop()
    roster.put("")
    assert len(told) == 4


async def test_what_was_registered_once_comes_back_by_nobody_but_a_gateway(
    gateway: Gateway,
) -> None:
    """Whoever has the database keeps what a gateway wrote there, and may put it there again."""
    told = [gateway.roster.vouched("")]
    for act in ("add", "remove", "add"):
        await getattr(gateway.registration, act)("web", *([WEB] if act == "add" else []))
        told.append(gateway.roster.vouched(gateway.roster.text))
    assert gateway.roster.opened(told[-1]) == gateway.roster.text
    for earlier in told[:-1]:
        with pytest.raises(ConfigError, match="older than what was in force"):
            gateway.roster.opened(earlier)
    assert Roster(b"key").opened(told[1])  # whoever begins knows of nothing later


def test_what_came_into_force_nowhere_is_older_than_whatever_does_next() -> None:
    one, other = Roster(b"key"), Roster(b"key")
    refused = one.following("x")
    told = one.vouched(refused)
    assert other.opened(told) == refused
    for each in (one, other):
        each.give_up(refused)
        with pytest.raises(ConfigError, match="nowhere"):
            each.opened(told)
        after = each.following("x")
        assert after == "# 2\nx"
        each.put(after)
        assert not each.is_given_up(refused)
        with pytest.raises(ConfigError, match="older"):
            each.opened(told)


def test_what_is_in_force_is_given_up_by_nobody() -> None:
    roster = Roster(b"key")
    roster.put("# 1\nx")
    roster.give_up("# 1\nx")
    assert roster.opened(roster.vouched("# 1\nx")) == "# 1\nx"
    roster.give_up("# 2\ny")
    roster.give_up("# 3\nz")
    roster.put("# 2\ny")
    assert (roster.is_given_up("# 2\ny"), roster.is_given_up("# 3\nz")) == (False, True)
