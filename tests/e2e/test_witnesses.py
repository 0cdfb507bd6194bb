"""A real gateway has its log cosigned, over kill -9, and is told of when it was put back."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.backends import FILES, only
from tests.e2e.test_record_leaves import cause, exports, kill, metric, readyz, until
from tests.export.witness import Said, Witness, witnessing
from tests.running import DOUANE, Running, running_gateway
from tests.servers.process import ROOT, free_ports

NAME = "witness w1"


@contextmanager
def gateway_in(folder: Path, ports: tuple[int, int], witness: Witness) -> Iterator[Running]:
    asked = {"url": witness.url, "key": witness.vkey, "every": "1s"}
    audit = {"checkpoints": {"witnesses": {"w1": asked}}}
    with running_gateway(folder, {}, ports=ports, audit=audit) as gateway:
        yield gateway


def origin(gateway: Running) -> str:
    (key,) = [row for row in gateway.rows("keys", "list") if row["use"] == "audit"]
    return str(key["public"])


def cosigned(witness: Witness) -> int:
    return max((size for size, _ in witness.seen.values()), default=0)


def test_the_log_is_witnessed_over_kills_and_an_auditor_sees_it(tmp_path: Path) -> None:
    ports = free_ports()
    with witnessing(Witness()) as witness:
        with gateway_in(tmp_path / "g", ports, witness) as gateway:
            key = origin(gateway)
            witness.know(key)
            cause(gateway, 10)
            until(lambda: cosigned(witness) > 10)
            kill(gateway)
        before = cosigned(witness)
        lost: list[Said] = []

        def cut_off(said: Said) -> Said:
            if said[0] == 409:  # it was killed before it read what it had been answered
                return said
            lost.append(said)
            return 502, "text/plain", b""

        witness.distort = cut_off
        with gateway_in(tmp_path / "g", ports, witness) as gateway:
            until(lambda: any(status == 200 for status, _, _ in lost))
            assert readyz(gateway)[NAME] == "it answers with status 502"
            assert exports(gateway)[NAME]["state"] == "failing"
            assert metric(gateway, "douane_audit_follower_failing", NAME) == 1
            kill(gateway)
        witness.distort = lambda said: said
        with gateway_in(tmp_path / "g", ports, witness) as gateway:
            until(lambda: cosigned(witness) > before + 2)
            until(lambda: exports(gateway)[NAME]["state"] == "ok")
            told = gateway.douane("audit", "verify", "--witness", witness.vkey)
            assert (told.returncode, "witnessed by witness.example/w1 at 2" in told.stdout) == (
                0,
                True,
            ), told.stdout
            bundle = gateway.douane("audit", "export", "--format", "bundle", "--where", "code = x")
            log = gateway.log
        assert "disagrees" not in log
    # On another machine, with the two public keys and nothing else.
    (tmp_path / "export").write_text(bundle.stdout)
    for command in (
        ("-I", str(ROOT / "docs" / "verify_export.py"), "export", "--key", key),
        ("-I", str(ROOT / "docs" / "verify_witness.py"), "export", witness.vkey),
        (DOUANE, "audit", "verify", "--export", "export", "--key", key, "--witness", witness.vkey),
    ):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@only(FILES)
def test_a_log_that_was_put_back_is_told_of_and_on_record(tmp_path: Path) -> None:
    ports, folder = free_ports(), tmp_path / "g"
    with witnessing(Witness()) as witness:
        with gateway_in(folder, ports, witness) as gateway:
            until(lambda: cosigned(witness) > 0)
        shutil.copytree(folder / "data", tmp_path / "backup")
        with gateway_in(folder, ports, witness) as gateway:
            cause(gateway, 40)
            until(lambda: cosigned(witness) > 40)
        shutil.rmtree(folder / "data")
        shutil.copytree(tmp_path / "backup", folder / "data")
        with gateway_in(folder, ports, witness) as gateway:
            until(lambda: NAME in readyz(gateway))
            assert "it was cut off or put back" in readyz(gateway)[NAME]
            assert readyz(gateway)["status"] == "ready"
            (record,) = gateway.rows("audit", "query", "--code", "witness_disagrees")
            assert record["kind"] == "system"
            assert record["evidence"]["cosigned"] == cosigned(witness)
            assert record["evidence"]["size"] < cosigned(witness)
