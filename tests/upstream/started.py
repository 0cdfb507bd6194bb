"""The scripted local server as an upstream, in a jail or without one."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.domain.calls import Form, Permit, RawAnswer
from gateway.domain.tools import Profile, UpstreamId
from gateway.upstream.launch import Launch
from gateway.upstream.settings import LocalSettings, Timeouts
from gateway.upstream.stdio import StdioUpstream
from tests.servers import local
from tests.upstream.permits import permit_for

LOCAL = UpstreamId("local")
SCRIPT = Path(local.__file__)
PYTHON = str(Path(sys.executable).absolute())


def launch(folder: Path, *how: str, jailed: bool = False, **about: Any) -> Launch:
    """Return the command that starts the scripted server, to behave as `how` says."""
    about["read"] = (SCRIPT, *about.get("read", ()))
    argv = (PYTHON, str(SCRIPT), *how)
    if not jailed:
        del about["read"]
    return Launch(argv=argv, folder=folder, jailed=jailed, **about)


def settings(
    folder: Path, *how: str, jailed: bool = False, idle_s: float = 10.0, **about: Any
) -> LocalSettings:
    given = about.pop("launch", {})
    about.setdefault("concealed", ())
    about.setdefault("timeouts", Timeouts(connect_s=5.0, idle_s=idle_s, hard_s=20.0))
    return LocalSettings(server=LOCAL, launch=launch(folder, *how, jailed=jailed, **given), **about)


@asynccontextmanager
async def local_upstream(folder: Path, *how: str, **about: Any) -> AsyncIterator[StdioUpstream]:
    upstream = StdioUpstream(about.pop("settings", None) or settings(folder, *how, **about))
    try:
        yield upstream
    finally:
        await upstream.aclose()


def initialize(**about: Any) -> Permit:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
    return permit_for("initialize", profile=Profile.LEGACY, params=params, **about)


async def session_of(upstream: StdioUpstream) -> str:
    """Begin a session, and return its id."""
    answer = await upstream.forward(initialize())
    assert answer.session is not None
    return answer.session


def call(
    name: str, session: str | None = None, rpc_id: str | int = 7, token: object = None, **given: Any
) -> Permit:
    """Return leave to call a tool: in a session, or of the stateless revision."""
    params: dict[str, Any] = {"name": name, "arguments": given}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    profile = Profile.MODERN if session is None else Profile.LEGACY
    return permit_for(params=params, profile=profile, session=session, rpc_id=rpc_id)


def bare(form: Form, session: str | None) -> Permit:
    return permit_for(form.value, form=form, profile=Profile.LEGACY, rpc_id=None, session=session)


async def messages(answer: RawAnswer) -> list[dict[str, Any]]:
    """Return every message of an answer, in order."""
    if isinstance(answer.body, bytes):
        return [json.loads(answer.body)]
    return [json.loads(event.data or b"") async for event in answer.body]


async def said(upstream: StdioUpstream, permit: Permit) -> Any:
    """Return what the text of a call's result says, read as JSON where it is some."""
    last = (await messages(await upstream.forward(permit)))[-1]
    text = last["result"]["content"][0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text


async def until(condition: Any, patience_s: float = 60.0) -> None:
    """Return once `condition()` holds."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process of that id does something, and is not only waiting to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
