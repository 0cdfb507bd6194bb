"""Replicas and whoever orders the log are killed, stopped and cut off: the log has what was acknowledged."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gateway.storage.postgres.connection import Connection
from tests import forks
from tests.forks import Process
from tests.storage.postgres.shared import PATIENCE_S, ordered, with_runs

KILLS = 9
MORE = 40
"""Records that come into the log between one end and the next."""


@contextmanager
def process(module: str, *words: str) -> Iterator[Process]:
    with tempfile.TemporaryFile() as said:  # what it says is of no use: its records are looked at
        started = forks.start(module, words, output=said, errors=said, environment={})
    assert started is not None
    try:
        yield started
    finally:
        started.kill()
        started.wait()


class Killing:
    """Two replicas at work and three who stand ready to order what they put."""

    def __init__(self, stack: ExitStack, address: str, told: Path, owner: Connection) -> None:
        self._stack = stack
        self._address = address
        self._told = told
        self._owner = owner
        self._count = 0
        self.replicas = [self._replica() for _ in range(2)]
        self.sequencers = {name: self._sequencer(name) for name in ("x", "y", "z")}

    def _replica(self) -> Process:
        self._count += 1
        name = f"n{self._count}"
        module = "tests.storage.postgres.replica_process"
        return self._stack.enter_context(
            process(module, self._address, name, str(self._told / name))
        )

    def _sequencer(self, name: str) -> Process:
        module = "tests.storage.postgres.sequencer_process"
        return self._stack.enter_context(process(module, self._address, name))

    def size(self) -> int:
        ((size,),) = self._owner.execute("SELECT size FROM tree").fetchall()
        return int(size)

    def grows(self, by: int = MORE) -> None:
        size, patience = self.size(), time.monotonic() + 2 * PATIENCE_S
        while self.size() < size + by:
            assert time.monotonic() < patience, "the log does not grow"
            time.sleep(0.01)

    def leader(self) -> str:
        ((name,),) = self._owner.execute("SELECT leader FROM tree").fetchall()
        return str(name)

    def kill_leader(self) -> None:
        name = self.leader()
        self.sequencers[name].kill()
        self.sequencers[name] = self._sequencer(name)

    def stop_leader(self) -> None:
        """Stop it until another one leads, and have it go on."""
        name = self.leader()
        os.kill(self.sequencers[name].pid, signal.SIGSTOP)
        patience = time.monotonic() + PATIENCE_S
        while self.leader() == name:
            assert time.monotonic() < patience, "nobody follows"
            time.sleep(0.01)
        self.grows()
        os.kill(self.sequencers[name].pid, signal.SIGCONT)

    def cut_connections(self) -> None:
        self._owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'douane lane%'"
        )

    def kill_replica(self) -> None:
        self.replicas.pop(0).kill()
        self.replicas.append(self._replica())

    def acknowledged(self) -> set[str]:
        lines = (path.read_text().split("\n") for path in self._told.iterdir())
        return {line for found in lines for line in found[:-1]}


def test_what_was_acknowledged_is_in_the_log_once(
    address: str, owner: Connection, tmp_path: Path
) -> None:
    with_runs(owner, *(f"r{n}/o{n}" for n in range(4)))
    dice = random.Random(7)
    with ExitStack() as stack:
        killing = Killing(stack, address, tmp_path, owner)
        killing.grows()
        ends = [killing.kill_leader, killing.cut_connections, killing.stop_leader]
        for n in range(KILLS):
            time.sleep(dice.random() / 20)
            ends[n % len(ends)]()
            if n % 4 == 3:
                killing.kill_replica()
            killing.grows()
    found = ordered(address)
    rows = owner.execute("SELECT id, kind, decision_id, lane, n FROM audit ORDER BY leaf_index")
    seen: set[str] = set()
    newest: dict[int, int] = {}
    for name, kind, decision, lane, n in rows.fetchall():
        assert name not in seen
        assert n > newest.get(lane, 0)
        assert kind != "outcome" or decision in seen
        seen.add(name)
        newest[lane] = n
    acknowledged = killing.acknowledged()
    assert acknowledged <= seen
    assert len(acknowledged) > KILLS * MORE / 4
    assert found.signed == found.size == len(seen)
    assert found.checkpoints > KILLS
