"""One client as 5 and as 43 processes over days: its person stays signed in, and a thief does not."""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.oauth.records import TokenRequest
from tests.oauth import refreshing_process
from tests.oauth.issuing import SOURCE, Issuer

MINUTE, HOUR = 60.0, 3600.0
DAYS = 14
SLOTS = 8
WELL = {"fresh", "refreshed", "let in", "read", "died"}


class Crowd:
    """The processes of one client, and the file of tokens that they share."""

    def __init__(self, issuer: Issuer, port: int, file: Path) -> None:
        self.issuer = issuer
        self.file = file
        self.said: Counter[str] = Counter()
        self._port = port
        self._processes: list[asyncio.subprocess.Process] = []

    def __len__(self) -> int:
        return len(self._processes)

    async def grow(self) -> None:
        """Start one more process."""
        program = [sys.executable, "-I", "-S", refreshing_process.__file__]
        self._processes.append(
            await asyncio.create_subprocess_exec(
                *program, str(self._port), str(self.file), stdin=PIPE, stdout=PIPE
            )
        )

    async def do(self, what: str, which: Iterable[int]) -> Sequence[str]:
        """Have these do it at once; return what they say."""
        answers = await asyncio.gather(*(self._told(what, number) for number in which))
        self.said.update(answers)
        return answers

    def later(self, seconds: float) -> None:
        self.issuer.clock.now += seconds

    async def _told(self, what: str, number: int) -> str:
        process = self._processes[number]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{what} {self.issuer.clock.now}\n".encode())
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
async def crowd(folder: Path, size: int) -> AsyncIterator[Crowd]:
    issuer = Issuer(folder)

    async def token(request: web.Request) -> web.Response:
        asked = TokenRequest(body=await request.read(), source_ip=SOURCE)
        # Whoever asks and dies has asked.
        answer = await asyncio.shield(issuer.endpoint.answer(asked))
        return web.json_response(dict(answer.body), status=answer.status)

    app = web.Application()
    app.router.add_post("/oauth/token", token)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    file = folder / "tokens.json"
    first = await issuer.signed_in()
    file.write_text(
        json.dumps({"until": issuer.clock.now + 900, "refresh": first["refresh_token"]})
    )
    made = Crowd(issuer, port, file)
    try:
        await asyncio.gather(*(made.grow() for _ in range(size)))
        yield made
    finally:
        await made.end()
        await runner.cleanup()
        issuer.stores.close()


async def a_day(crowd: Crowd, dice: random.Random) -> None:
    """Live through a day of work, and the night before it."""
    everybody = range(len(crowd))
    crowd.later(14 * HOUR)
    await crowd.do("need", everybody)
    await crowd.do("read", [0])
    for slot in range(SLOTS):
        crowd.later(dice.uniform(16, 70) * MINUTE)
        # The first one goes on for days with what it read in the morning.
        some = dice.sample(everybody[1:], dice.randint(2, len(crowd) - 1))
        match slot % 4:
            case 0:
                await crowd.do("need", some)
            case 1:
                # Killed before it could store the answer, and nobody is there for half an hour.
                await crowd.do("die", some[:1])
                crowd.later(30 * MINUTE)
                await crowd.do("need", some[1:])
            case 2:
                await asyncio.gather(crowd.do("need", some[1:]), crowd.do("die", some[:1]))
            case _:
                # Read before others refreshed twice, and sent after it.
                await crowd.do("read", some[:1])
                await crowd.do("refresh", some[1:2])
                await crowd.do("refresh", some[1:2])
                crowd.later(MINUTE)
                await crowd.do("again", some[:1])
    # What it has in memory is from the morning: refused, it looks at what the others have.
    crowd.later(20 * MINUTE)
    await crowd.do("again", [0])


def reasons(issuer: Issuer) -> Counter[str]:
    return Counter(record.fields["reasons"][0]["code"] for record in issuer.log.records)


@pytest.mark.parametrize("size", [5, 43])
async def test_nobody_is_signed_out_by_their_own_client_and_a_thief_is(tmp_path, size):
    dice = random.Random(size)
    async with crowd(tmp_path, size) as people:
        for _ in range(DAYS):
            await a_day(people, dice)
            assert set(people.said) <= WELL, people.said
        told = reasons(people.issuer)
        assert people.issuer.families() == 1
        assert min(told[code] for code in ("refresh_given_again", "refresh_raced")) >= DAYS
        assert told["refresh_reused"] == DAYS
        assert told["refresh_revoked"] == 0

        stolen = json.loads(people.file.read_text())["refresh"]
        for _ in range(3):
            people.later(16 * MINUTE)
            await people.do("need", range(len(people)))
            people.later(5 * MINUTE)
            status, body = await people.issuer.refresh(stolen)
            stolen = body.get("refresh_token", stolen)
            if status != 200:
                break
        assert reasons(people.issuer)["refresh_revoked"] == 1
        assert people.issuer.families() == 0
