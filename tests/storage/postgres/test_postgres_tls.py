"""The way to PostgreSQL under TLS: to the server that was named, by an authority that is trusted, or not at all."""

import os
import pwd
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gateway.errors import ConfigError
from gateway.storage.postgres.base import made
from gateway.storage.postgres.checking import findings
from gateway.storage.postgres.connection import connect
from tests.postgres import own
from tests.servers.process import free_port
from tests.signin_e2e.authority import make_authority


@dataclass(frozen=True)
class Served:
    port: int
    ca: Path
    other: Path
    """Of an authority that has signed nothing here."""

    def address(self, host: str, *, ca: Path | None = None) -> str:
        return (
            f"postgresql://postgres@{host}:{self.port}/postgres?hostaddr=127.0.0.1"
            f"&sslmode=verify-full&sslrootcert={ca or self.ca}"
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with TemporaryDirectory(prefix="douane-tls-") as folder:
        yield from _served(Path(folder), make_authority(tmp_path_factory.mktemp("other")).ca)


def _served(folder: Path, other: Path) -> Iterator[Served]:
    authority, port = make_authority(folder), free_port()
    if os.geteuid() == 0:  # the server is run as another user, who reads these two
        folder.chmod(0o755)
        owner = pwd.getpwnam("postgres")
        for path in (authority.key, authority.certificate):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "ssl": "on",
        "ssl_cert_file": str(authority.certificate),
        "ssl_key_file": str(authority.key),
        "fsync": "off",
    }
    with own(settings):
        yield Served(port=port, ca=authority.ca, other=other)


def test_the_server_that_was_named_is_spoken_to_under_tls(served: Served) -> None:
    address = served.address("localhost")
    made(address)
    with closing(connect(address, application="test")) as connection:
        asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert connection.execute(asked).fetchone() == (True,)


def test_a_server_of_another_name_is_none(served: Served) -> None:
    address = served.address("db.internal")
    with pytest.raises(ConfigError, match="does not match host name"):
        made(address)
    (found,) = findings(address)
    assert (found.wrong, "does not match host name" in found.text) == (True, True)


def test_a_server_that_another_authority_vouches_for_is_none(served: Served) -> None:
    with pytest.raises(ConfigError, match="certificate verify failed"):
        made(served.address("localhost", ca=served.other))


def test_the_server_notices_in_seconds_that_a_gateways_machine_is_gone(served: Served) -> None:
    """Nothing says so: with what a kernel does by itself its session, and its locks, would stay for two hours."""
    asked = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    with closing(connect(served.address("localhost"), application="test")) as connection:
        found = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in asked]
        unsent = connection.execute(b"SHOW tcp_user_timeout").fetchone()
    assert (found, unsent) == ([("3",), ("1",), ("3",)], ("3000",))
