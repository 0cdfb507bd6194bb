"""A command goes through the gateway that runs, or takes its lock; never around it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.person import Person
from gateway.cli import connection
from gateway.web import door
from tests.admin.world import sighting
from tests.cli.world import Site


def test_with_a_gateway_running_a_command_goes_through_its_socket(site: Site) -> None:
    site.seen = [sighting("send")]
    with site.running():
        (row,) = site.rows("pins", "approve", "mail", "--all")
        assert row["status"] == "approved"
        (record,) = site.rows("audit", "query")
        assert (record["principal"], record["code"]) == (row["approved_by"], "approved")
        told = [line["id"] for line in site.rows("audit", "tail", "--lines", "2")]
        assert told[0] == record["id"]  # and behind it, that the log was searched
        assert site.run("audit", "export").stdout.count("\n") == 3


def test_a_refusal_of_the_running_gateway_sets_the_exit_status(site: Site) -> None:
    with site.running():
        assert site.run("runs", "show", "none").exit_code == 1
        assert site.run("audit", "query", "--where", "nonsense").exit_code == 2
        told = site.run("runs", "show", "none").stderr
        command = f"`douane --config {site.config_file} runs list`"
        assert told == f"douane: no such run; {command} lists them\n"


def test_another_user_is_nobody_in_the_running_gateway(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_peer_uid", lambda _: 65534)
    with site.running():
        told = site.run("pins", "list")
    assert (told.exit_code, "needs the role" in told.stderr) == (1, True)


def test_another_user_is_nobody_on_the_files_either(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Person(name="os:nobody", roles=frozenset())
    monkeypatch.setattr(connection, "person_of", lambda uid, data_dir, people: nobody)
    told = site.run("audit", "tail")
    assert (told.exit_code, "os:nobody needs the role" in told.stderr) == (1, True)


def test_a_data_directory_that_is_in_use_is_not_touched(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PATIENCE_S", 0.0)
    with site.running():
        (site.data_dir / "douane.sock").unlink()
        told = site.run("pins", "list")
    assert (told.exit_code, "is in use by process" in told.stderr) == (2, True)


def test_a_dead_gateways_socket_is_passed_over(site: Site) -> None:
    site.data_dir.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(site.data_dir / "douane.sock"))
    dead.close()
    assert site.run("servers", "list").exit_code == 0


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """A gateway that says `answer` to the first request and goes away."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize("answer", [b"", b'{"ok": true, "more": true, "result": {}}\n'])
def test_a_gateway_that_goes_away_is_no_success(site: Site, answer: bytes) -> None:
    site.data_dir.mkdir(mode=0o700)
    with answering(site.data_dir / "douane.sock", answer):
        told = site.run("audit", "tail", "--json")
    assert (told.exit_code, "stopped before it answered" in told.stderr) == (1, True)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied"), "belongs to another user"),
        (OSError(36, "File name too long"), "cannot be reached"),
    ],
)
def test_a_socket_that_cannot_be_used_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: OSError, told: str
) -> None:
    class Closed(socket.socket):
        def connect(self, address: Any) -> None:
            raise error

    monkeypatch.setattr(socket, "socket", Closed)
    result = site.run("pins", "list")
    assert (result.exit_code, told in result.stderr) == (1, True)
    assert not site.data_dir.exists()


def test_what_a_command_writes_on_the_files_belongs_to_this_user(site: Site) -> None:
    site.run("pins", "list")
    assert site.data_dir.stat().st_uid == os.getuid()
