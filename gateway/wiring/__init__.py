"""The only place that names concrete adapters: from a configuration to a running gateway."""

import asyncio
import sys
from pathlib import Path

import uvloop

from gateway.config import Config
from gateway.wiring.administration import (
    open_admin,
    probe,
    probe_issuers,
    probe_local,
)
from gateway.wiring.code import probe_programs
from gateway.wiring.logs import set_up_logs
from gateway.wiring.moving import moved_back, moved_in, reopen_storage
from gateway.wiring.policy_files import policy_files
from gateway.wiring.replicas import make_tables, probe_storage
from gateway.wiring.retaining import told_of_journal, verify_log, verify_segment
from gateway.wiring.searching import check_model
from gateway.wiring.serving import serve_until_told

_SWITCH_S = 0.0001
"""How long the event loop may keep the writer's thread waiting for the interpreter.

With the default of 5 ms every commit of a busy gateway waits some milliseconds for nothing.
"""

__all__ = [
    "check_model",
    "make_tables",
    "moved_back",
    "moved_in",
    "open_admin",
    "policy_files",
    "probe",
    "probe_issuers",
    "probe_local",
    "probe_programs",
    "probe_storage",
    "reopen_storage",
    "serve",
    "told_of_journal",
    "verify_log",
    "verify_segment",
]


def serve(config: Config, path: Path) -> int:
    """Serve `config`, read from `path`, until told to stop; return the exit status.

    Raises:
        ConfigError: It cannot be served.

    """
    set_up_logs(sys.stderr)
    sys.setswitchinterval(_SWITCH_S)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_told(config, path))
    return 0
