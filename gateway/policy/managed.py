"""An OPA server of the gateway's own: on a private socket, for whoever has its token."""

import asyncio
import contextlib
import hashlib
import logging
import secrets

from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.bundle import Policy, export
from gateway.policy.opa import Opa, confine, environment
from gateway.policy.own_folder import OwnFolder
from gateway.policy.rest import OpaClient, RestEngine
from gateway.processes import ended, lifeline

logger = logging.getLogger(__name__)

_READY_SECONDS = 20.0
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 3.0
_RESTART_SECONDS = 0.2
_URL = "http://opa"
_PREFIX = "douane-opa-"

# The digest of the token, not the token: the folder holds nothing that opens the door.
_AUTHORIZATION = """package system.authz

default allow := false

allow if {{
	crypto.sha256(input.identity) == "{digest}"
	input.method == "POST"
	some entrypoint in ["decision", "pin", "pin_approvals", "self_approval"]
	input.path == ["v1", "data", "douane", entrypoint]
}}
"""


class ManagedEngine(RestEngine):
    """Answers from an OPA process that lives and ends with it, and is started again if it dies.

    It ends with this process as well, also if that is killed; the next one removes the folder.

    The socket lies in a folder that only our own user can enter; besides, the server answers four
    questions and nothing else, and only to the bearer of a token that never leaves this process.
    """

    def __init__(self, opa: Opa, policy: Policy, own: OwnFolder, *, deadline: float) -> None:
        token, folder = secrets.token_urlsafe(32), own.path
        self.socket = folder / "opa.sock"
        client = OpaClient(_URL, token=token, socket=self.socket)
        super().__init__(client, deadline=deadline, digest=policy.digest)
        self._opa = opa
        self._own = own
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        bundle = folder / "bundle"
        bundle.mkdir()
        export(policy, bundle)
        digest = hashlib.sha256(token.encode()).hexdigest()
        # In a folder of its own, so that it takes the place of no file of the policy's.
        ours = bundle / f"gateway-{secrets.token_hex(4)}"
        ours.mkdir()
        (ours / "authz.rego").write_text(_AUTHORIZATION.format(digest=digest), encoding="utf-8")

    @classmethod
    async def start(cls, opa: Opa, policy: Policy, *, deadline: float) -> "ManagedEngine":
        """Start OPA with `policy` and return once it answers.

        Raises:
            ConfigError: It does not.

        """
        own = await asyncio.to_thread(OwnFolder.begin, _PREFIX)
        engine = cls(opa, policy, own, deadline=deadline)
        await engine._client.open()
        try:
            await engine._spawn()
            await engine._until_ready()
        except BaseException:
            await engine.close()
            raise
        engine._keeper = asyncio.create_task(engine._keep())
        return engine

    async def close(self) -> None:
        """End the process and remove what it left."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await super().close()
        await self._end()
        self._own.remove()

    async def _spawn(self) -> None:
        self.socket.unlink(missing_ok=True)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *lifeline(),
                str(self._opa.binary),
                "run",
                "--server",
                f"--addr=unix://{self.socket}",
                "--authentication=token",
                "--authorization=basic",
                "--log-level=error",
                "--skip-version-check",
                "--bundle",
                str(self._own.path / "bundle"),
                env=environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise ConfigError("OPA could not be started", problems=[str(error)]) from error
        confine(self._process.pid, cpu_seconds=None)

    async def _until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _READY_SECONDS
        while self._process is not None and self._process.returncode is None:
            try:
                await self.judge_pin({})
            except PolicyUnavailable:
                if loop.time() > until:
                    break
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
        raise ConfigError("OPA was started and does not answer")

    async def _keep(self) -> None:
        """Start OPA again whenever it ends; until it is back, decisions are refused."""
        while self._process is not None:
            await self._process.wait()
            await asyncio.sleep(_RESTART_SECONDS)
            try:
                await self._spawn()
            except ConfigError:
                continue
            except Exception:
                logger.exception("OPA could not be started again; it is tried once more")

    async def _end(self) -> None:
        await ended(self._process, grace_s=_GRACE_SECONDS)
