"""Two processes that want the same thing at the same moment, for as many rounds as asked."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.domain.grants import DeviceStatus
from gateway.domain.secrets import KeyState, SealedKey
from gateway.storage.identity.store import IdentityStores
from tests.storage.identity.identities import (
    NOW,
    code,
    connection,
    device,
    grant,
    token,
    transaction,
    user,
)
from tests.storage.identity.places import opened

ROOT = Path(__file__).parents[3]

SUBJECTS = (
    "authorization code",
    "refresh token",
    "device",
    "sign-in",
    "setup link",
    "assertion",
    "lease",
    "signing key",
    "client's name",
)


class Racer:
    """Another process on the same identity database."""

    def __init__(self, place: str, name: str) -> None:
        program = [
            sys.executable,
            "-m",
            "tests.storage.identity.racing_process",
            place,
            name,
        ]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=60)

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def said(self) -> str:
        assert self._process.stdout is not None
        line: str = self._process.stdout.readline()
        assert line.endswith("\n"), "the process has ended"
        return line.strip()


@contextmanager
def two_racers(place: str) -> Iterator[tuple[Racer, Racer]]:
    """Start two processes at once, also where there is no database yet."""
    with Racer(place, "a") as one, Racer(place, "b") as other:
        assert [one.said(), other.said()] == ["ready", "ready"]
        yield one, other


def races(place: str, *, rounds: int) -> dict[str, Counter[int]]:
    """Return for each of `SUBJECTS` how many rounds had how many winners: `{1: rounds}` is right."""
    tally: dict[str, Counter[int]] = {subject: Counter() for subject in SUBJECTS}
    with two_racers(place) as racers:
        stores = opened(place, clock=time.time)
        stores.users.add(user())
        for number in range(rounds):
            plant(stores, number)
            for racer in racers:
                racer.tell(f"race {number}")
            outcomes = [racer.said().split() for racer in racers]
            for subject, *results in zip(SUBJECTS, *outcomes, strict=True):
                tally[subject][results.count("won")] += 1
        stores.close()
    return tally


def plant(stores: IdentityStores, number: int) -> None:
    """Store one of everything that can be used once."""
    stores.grants.issue_code(grant(f"c{number}"), code(f"code{number}", of=f"c{number}"))
    stores.grants.begin_family(grant(f"t{number}"), token(f"token{number}", of=f"t{number}"))
    stores.grants.add_device(device(f"device{number}"))
    stores.grants.answer_device(
        f"device{number}", DeviceStatus.APPROVED, grant(f"d{number}"), now=NOW
    )
    stores.browsers.begin(transaction(f"x{number}"))
    stores.users.add_link("u_emma", f"link{number}", until=NOW + 60)
    stores.connections.connect(connection(f"s{number}"))
    stores.signing_keys.add_key(
        SealedKey(kid=f"key{number}", state=KeyState.NEXT, sealed="", created_at=NOW)
    )
