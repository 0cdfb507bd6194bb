"""One client that is many processes, at a gateway in a process of its own, over simulated days."""

import asyncio
import json
import random
import secrets
import sys
import time
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from gateway.domain.grants import AuthorizationCode, Grant
from gateway.oauth.protocol import token_hash
from tests.backends import identity_in, log_in, taken_up
from tests.moved_clock import MovedClock
from tests.oauth import refreshing_process
from tests.oauth.issuing import ALICE, APP, CALLBACK, OTHER, SCOPES, VERIFIER
from tests.oauth.world import MAIL
from tests.running import Running, rules_in, running_gateway
from tests.servers.process import free_ports, nobodys_port

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
WELL = {"fresh", "refreshed", "let in", "read", "died"}
"""What processes say whose person is signed in."""
_SLOTS = 8
_PATIENCE_S = 120.0


class Desk:
    """The gateway, its clock, and whoever brings a refresh token to it."""

    def __init__(self, running: Running, clock: MovedClock) -> None:
        self.running = running
        self.clock = clock

    def told(self) -> Counter[str]:
        """Return how often the token endpoint answered what, by its records."""
        deadline = time.monotonic() + _PATIENCE_S
        while not taken_up(self.running.folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        with log_in(self.running.folder) as reader:
            asked = [one for one in reader.export() if one.get("method") == "oauth/token"]
        return Counter(one["reasons"][0]["code"] for one in asked)

    def sign_in(self) -> str:
        """Let the person let the client in; return the first refresh token of a new grant."""
        code = secrets.token_hex(16)
        grant = Grant(
            id=secrets.token_hex(8),
            user_id=ALICE.id,
            client_id=APP.id,
            endpoint=MAIL,
            scopes=SCOPES,
            created_at=self.clock(),
            expires_at=self.clock() + 90 * DAY,
        )
        stores = identity_in(self.running.folder, clock=self.clock)
        try:
            stores.grants.issue_code(
                grant,
                AuthorizationCode(
                    code_hash=token_hash(code),
                    grant_id=grant.id,
                    client_id=APP.id,
                    redirect_uri=CALLBACK,
                    code_challenge=create_s256_code_challenge(VERIFIER),
                    expires_at=self.clock() + MINUTE,
                ),
            )
        finally:
            stores.close()
        status, body = self.asked(
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
            client_id=APP.id,
        )
        assert status == 200, body
        found: str = body["refresh_token"]
        return found

    def refresh(self, token: str, client_id: str = APP.id) -> tuple[int, dict[str, Any]]:
        """Bring a refresh token, as whoever has it."""
        return self.asked(grant_type="refresh_token", refresh_token=token, client_id=client_id)

    def asked(self, **form: str) -> tuple[int, dict[str, Any]]:
        """Ask the token endpoint; return status and body."""
        request = urllib.request.Request(
            f"{self.running.url}/oauth/token", urlencode(form).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)


@contextmanager
def desk(folder: Path) -> Iterator[Desk]:
    """Run a gateway that knows Alice and two clients of hers."""
    clock = MovedClock(folder)
    ports = free_ports()
    (folder / "gateway").mkdir(mode=0o700)
    (folder / "gateway" / "data").mkdir(mode=0o700)
    stores = identity_in(folder / "gateway", clock=clock)
    try:
        stores.users.add(replace(ALICE, issuer=f"http://127.0.0.1:{ports[0]}"))
        for client in (APP, OTHER):
            stores.clients.add(replace(client, created_at=clock()))
    finally:
        stores.close()
    with running_gateway(
        folder / "gateway",
        {"mail": {"url": f"http://127.0.0.1:{nobodys_port()}/mcp"}},
        policies=rules_in(folder / "policies"),
        ports=ports,
        environment=clock.environment,
    ) as running:
        yield Desk(running, clock)


class Crowd:
    """The processes, and the file of tokens that they share."""

    def __init__(self, desk: Desk, file: Path) -> None:
        self.desk = desk
        self.file = file
        self.said: Counter[str] = Counter()
        self._processes: list[asyncio.subprocess.Process] = []

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def refresh_token(self) -> str:
        """The one that all of them share now."""
        kept: str = json.loads(self.file.read_text())["refresh"]
        return kept

    async def grow(self) -> None:
        """Start one more process."""
        program = [sys.executable, "-I", "-S", refreshing_process.__file__]
        port = self.desk.running.url.rpartition(":")[2]
        self._processes.append(
            await asyncio.create_subprocess_exec(
                *program, port, str(self.file), stdin=PIPE, stdout=PIPE
            )
        )

    async def do(self, what: str, which: Iterable[int]) -> Sequence[str]:
        """Have these do it at once; return what they say."""
        answers = await asyncio.gather(*(self._told(what, number) for number in which))
        self.said.update(answers)
        return answers

    async def _told(self, what: str, number: int) -> str:
        process = self._processes[number]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{what} {self.desk.clock()}\n".encode())
        answer = (await process.stdout.readline()).decode().strip()
        if not answer:
            assert await process.wait() == 9
            await self.grow()
            self._processes[number] = self._processes.pop()
        return answer or "died"

    async def end(self) -> None:
        for process in self._processes:
            process.kill()
            await process.wait()


@asynccontextmanager
async def crowd(desk: Desk, folder: Path, size: int) -> AsyncIterator[Crowd]:
    """Start the processes of a client that a person has let in."""
    file = folder / "tokens.json"
    file.write_text(json.dumps({"until": desk.clock() + 900, "refresh": desk.sign_in()}))
    made = Crowd(desk, file)
    try:
        await asyncio.gather(*(made.grow() for _ in range(size)))
        yield made
    finally:
        await made.end()


async def a_day(people: Crowd, dice: random.Random) -> None:
    """Live through a day of work, and the night before it."""
    everybody, later = range(len(people)), people.desk.clock.later
    later(14 * HOUR)
    await people.do("need", everybody)
    await people.do("read", [0])
    for slot in range(_SLOTS):
        later(dice.uniform(16, 70) * MINUTE)
        # The first one goes on for days with what it read in the morning.
        some = dice.sample(everybody[1:], dice.randint(2, len(people) - 1))
        match slot % 4:
            case 0:
                await people.do("need", some)
            case 1:
                # Killed before it could store the answer, and nobody is there for half an hour.
                await people.do("die", some[:1])
                later(30 * MINUTE)
                await people.do("need", some[1:])
            case 2:
                await asyncio.gather(people.do("need", some[1:]), people.do("die", some[:1]))
            case _:
                # Read before others refreshed twice, and sent after it.
                await people.do("read", some[:1])
                await people.do("refresh", some[1:2])
                later(MINUTE / 10)
                await people.do("refresh", some[1:2])
                later(MINUTE)
                await people.do("again", some[:1])
    # What it has in memory is from the morning: refused, it looks at what the others have.
    later(20 * MINUTE)
    await people.do("again", [0])


@dataclass(frozen=True, kw_only=True)
class Lived:
    """What became of a client over its days, and of three thieves after them."""

    said: Counter[str]
    """What its processes said."""
    told: Counter[str]
    """What the token endpoint answered meanwhile, by its records."""
    ended: int
    """Of the thieves, whose grant ended."""

    @property
    def signed_out(self) -> int:
        """How often a process found its person signed out."""
        return sum(times for what, times in self.said.items() if what not in WELL)


async def live(folder: Path, size: int, days: int) -> Lived:
    """Let a client of `size` processes live for `days`, and then steal from it in each way."""
    dice = random.Random(size)
    with desk(folder) as at:
        async with crowd(at, folder, size) as people:
            for _ in range(days):
                await a_day(people, dice)
            said, told = people.said.copy(), at.told()
            ended = [await in_turns(people)]
        ended += [from_far(at), as_another(at)]
    return Lived(said=said, told=told, ended=sum(ended))


async def in_turns(people: Crowd) -> bool:
    """Steal the token of a client at work, and go on beside it; return whether that was the end."""
    stolen = people.refresh_token
    for _ in range(3):
        people.desk.clock.later(16 * MINUTE)
        await people.do("need", range(len(people)))
        people.desk.clock.later(5 * MINUTE)
        status, body = await asyncio.to_thread(people.desk.refresh, stolen)
        stolen = body.get("refresh_token", stolen)
        if status != 200:
            return is_over(people.desk, people.refresh_token)
    return False


def from_far(desk: Desk) -> bool:
    """Bring a token that was stolen, after its owner has gone on; return whether that was the end."""
    stolen = owners = desk.sign_in()
    for _ in range(5):
        desk.clock.later(3 * MINUTE)
        owners = desk.refresh(owners)[1]["refresh_token"]
    desk.clock.later(3 * MINUTE)
    return desk.refresh(stolen)[0] == 400 and is_over(desk, owners)


def as_another(desk: Desk) -> bool:
    """Bring a stolen token as another client; return whether that was the end of it."""
    stolen = desk.sign_in()
    return desk.refresh(stolen, OTHER.id)[0] == 400 and is_over(desk, stolen)


def is_over(desk: Desk, newest: str) -> bool:
    """Whether a grant has ended: not even the newest of its tokens is good for anything."""
    status, body = desk.refresh(newest)
    return (status, body["error"]) == (400, "invalid_grant")
