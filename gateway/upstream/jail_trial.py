"""Whether a jail can be had here, which is found out by making one."""

import asyncio
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Final

from gateway.processes import said_by
from gateway.upstream import jail
from gateway.upstream.jail import ProcessLimits
from gateway.upstream.launch import Launch

_PROBE_S: Final = 10.0
_TOLD: Final = 200
"""Characters of what `bwrap` says, at most."""


async def problem(limits: ProcessLimits) -> str:
    """Try a jail, and return why there is none to be had here; empty if it works."""
    missing = [name for name in ("bwrap", "prlimit") if shutil.which(name, path=jail.PATH) is None]
    if missing:
        return f"{' and '.join(missing)} not found; install bubblewrap and util-linux"
    probe = Launch(argv=("/usr/bin/env", "true"), folder=Path("/"))
    try:
        process = await asyncio.create_subprocess_exec(
            *jail.command(probe, limits),
            env={"PATH": jail.PATH},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
    except OSError as error:
        return f"bwrap cannot be started: {error.strerror}"
    said = await said_by(process, within_s=_PROBE_S)
    if said is None:
        return f"bwrap did not end within {_PROBE_S:g} s"
    if process.returncode == 0:
        return ""
    text = said.decode(errors="replace").strip()[:_TOLD]
    return f"bwrap does not work here ({text or f'exit status {process.returncode}'})"
