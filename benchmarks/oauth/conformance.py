"""The public suite's scenarios for authorization servers, with a person who follows its links."""

import asyncio
from pathlib import Path

from benchmarks.conformance.suite import Score, SuiteFailed, score_of, suite_command
from gateway.processes import ended
from tests.servers.process import free_port
from tests.signin_e2e.browser import Person
from tests.signin_e2e.house import register

_PATIENCE_S = 120


async def judge(issuer: str, resource: str, person: Person, folder: Path) -> Score:
    """Run the suite at `issuer`; what it writes is kept in `folder`, which must not exist yet.

    Raises:
        SuiteFailed: It is not installed, or did not run to its end.

    """
    await asyncio.to_thread(folder.mkdir, parents=True)
    port = free_port()
    client_id = await asyncio.to_thread(register, issuer, f"http://127.0.0.1:{port}/callback")
    process = await asyncio.create_subprocess_exec(
        *(*suite_command(), "authorization", "--url", issuer, "--client-id", client_id),
        *("--resource", resource, "--port", str(port), "-o", str(folder)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed = await asyncio.wait_for(_attend(process, issuer, person), _PATIENCE_S)
        status = await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        raise SuiteFailed("the suite waits for something that does not happen") from None
    finally:
        await ended(process)
    await asyncio.to_thread((folder / "output.txt").write_text, printed)
    return score_of(folder, conforms=status == 0)


async def _attend(process: asyncio.subprocess.Process, issuer: str, person: Person) -> str:
    """Follow the link that the suite prints, once it listens; return all that it printed."""
    assert process.stdout is not None
    printed: list[str] = []
    link = ""
    async for line in process.stdout:
        printed.append(line.decode())
        if line.startswith(f"{issuer}/".encode()):
            link = line.decode().strip()
        elif link and b"Callback server started" in line:
            await person.follow(link)
            link = ""
    return "".join(printed)
