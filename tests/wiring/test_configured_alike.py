"""Gateways that share a database and are configured otherwise are found, and are not ready for long."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gateway.config import Config, parse
from gateway.config.alike import alike
from gateway.errors import PolicyUnavailable
from gateway.wiring.alike import GRACE_S, Alike

BASE = """\
version: 1
public_url: http://127.0.0.1:8080
auth: {key_encryption_key: file:/etc/douane/kek}
storage: {kind: postgres, url: file:/etc/douane/database}
servers:
  mail: {url: "http://127.0.0.1:9001/mcp"}
  notes: {url: "http://127.0.0.1:9002/mcp"}
"""


def config(*more: str, instead: Mapping[str, str] | None = None) -> Config:
    text = BASE + "".join(f"{line}\n" for line in more)
    for old, new in (instead or {}).items():
        assert old in text
        text = text.replace(old, new)
    return parse(text, file=Path("/etc/douane/douane.yaml"))


def differing(one: Config, other: Config) -> set[str]:
    told, others = alike(one), alike(other)
    return {key for key in told.keys() | others.keys() if told.get(key) != others.get(key)}


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        (config(), set()),
        (
            config("listen: 127.0.0.1:8091", "admin_listen: 127.0.0.1:8092", "data_dir: /data"),
            set(),
        ),
        (config(instead={"file:/etc/douane/kek": "file:/run/douane/kek"}), set()),
        (config("policy: {path: /elsewhere/policies}"), set()),
        (config("policy: {path: /etc/douane/others}"), {"policy"}),
        (config(instead={"file:/etc/douane/kek": "env:KEK"}), {"auth"}),
        (config("roles: {admin: {groups: [operators]}}"), {"roles"}),
        (config("tenant: {domains: [example.com]}"), {"tenant"}),
        (config("limits: {calls_per_minute: 7}"), {"limits"}),
        (config(instead={":9001": ":9003"}), {"servers.mail"}),
        (config(instead={"notes:": "diary:"}), {"servers.notes", "servers.diary"}),
    ],
)
def test_what_has_to_be_alike_is_told_by_its_key(other: Config, keys: set[str]) -> None:
    assert differing(config(), other) == keys


def test_labels_of_a_server_have_to_be_alike_and_what_is_registered_is_agreed_on() -> None:
    text = BASE.replace('9001/mcp"}', '9001/mcp", defaults: {integrity: trusted}}')
    other = parse(text, file=Path("/etc/douane/douane.yaml"))
    assert differing(config(), other) == {"servers.mail"}
    registered = config().read_from(Path("x"), {"notes": {}})
    assert differing(config(), registered) == {"servers.notes"}


class Board:
    """What all have told, the oldest first."""

    def __init__(self, *others: tuple[str, Config]) -> None:
        self.told = {name: said(one) for name, one in others}
        self.fails = False

    async def configured(self, told: str) -> Sequence[tuple[str, str]]:
        if self.fails:
            raise PolicyUnavailable("no", detail="no")
        self.told["me"] = told
        return list(self.told.items())


def said(one: Config) -> str:
    return json.dumps(dict(alike(one)), sort_keys=True)


OTHERWISE = config("roles: {admin: {groups: [operators]}}", instead={":9001": ":9003"})


async def test_who_is_configured_as_most_are_is_ready() -> None:
    board = Board(("a", config()), ("b", OTHERWISE))
    me = Alike(board, config, elapsed=lambda: 0.0)
    await me.compare(board)
    assert me.problem == ""
    assert me.facts == {"configured_otherwise": "b: roles, servers.mail"}
    board.told.pop("b")
    await me.compare(board)
    assert me.facts == {}


async def test_who_is_configured_otherwise_says_so_at_once_and_is_not_ready_for_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 100.0
    board = Board(("a", config()), ("b", config()))
    mine = OTHERWISE
    me = Alike(board, lambda: mine, elapsed=lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await me.compare(board)
    assert [one.getMessage() for one in caplog.records] == [
        "most gateways are configured otherwise than this one: roles, servers.mail"
    ]
    assert (me.problem, me.facts) == ("", {"configured_otherwise": "me: roles, servers.mail"})
    now += GRACE_S - 1
    await me.compare(board)
    assert me.problem == ""
    now += 1
    assert me.problem.startswith(
        "most gateways are configured otherwise: roles, servers.mail; give"
    )
    mine = config()
    await me.compare(board)
    assert (me.problem, me.facts) == ("", {})


@pytest.mark.parametrize("mine_first", [True, False])
async def test_of_as_many_those_are_right_that_were_there_before(*, mine_first: bool) -> None:
    board, now = Board(("a", config())), 0.0
    if mine_first:
        board.told = {"me": said(OTHERWISE), **board.told}
    me = Alike(board, lambda: OTHERWISE, elapsed=lambda: now)
    await me.compare(board)
    now += GRACE_S
    assert bool(me.problem) is not mine_first


async def test_what_others_say_is_no_text_of_ours_or_cannot_be_heard() -> None:
    board, now = Board(), 0.0
    board.told = {"a": "no JSON", "b": "no JSON"}
    me = Alike(board, config, elapsed=lambda: now)
    await me.compare(board)
    now += GRACE_S
    assert "servers.mail" in me.problem
    board.fails = True
    with pytest.raises(PolicyUnavailable):
        await me.compare(board)
    assert "servers.mail" in me.problem
