"""The beginning of a call whose answer is late: its server has answered with a task."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.domain._value import value
from gateway.domain.calls import AccessRequest, Call, Permit
from gateway.domain.late import LateCall, LateId, Progress, kept_decision
from gateway.domain.tools import OWN, Kind, Profile, UpstreamId
from gateway.errors import LimitExceeded, RateLimited
from gateway.pipeline.labels import is_clean
from gateway.pipeline.rules import Rules
from gateway.pipeline.trail import Trail
from gateway.ports import Clock
from gateway.ports.late import LateCalls
from gateway.wire.extensions import TASKS
from gateway.wire.outgoing import continues
from gateway.wire.tasks import TASK, declares_tasks, handle_of, original, read_begun, told

_LARGEST: Final = 256 * 1024
"""Bytes of a call that is kept until its answer comes."""


@value
class LateLimits:
    """What a server may wish for its tasks, at most."""

    longest_s: float
    """How long one is kept, in seconds."""
    poll_s: float
    """How long its caller waits at least between two looks, in seconds."""


class LateBeginnings:
    """Keeps what must be known again when the answer comes, before anybody has a handle of it."""

    def __init__(
        self,
        *,
        store: LateCalls,
        rules: Rules,
        limits: LateLimits,
        seal_key: bytes,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._limits = limits
        self._seal_key = seal_key
        self._clock = clock
        self._new_id = new_id
        self.servers: frozenset[UpstreamId] = frozenset(
            server
            for server, approved in rules.extensions.items()
            if TASKS in approved and server != OWN
        )
        """Those for which an operator has approved the extension."""

    def may_begin(self, permit: Permit) -> bool:
        """Whether the answer to this call may be a task: its client said that it can follow one.

        That stands in it only where an operator has approved the extension for its server.
        """
        call, access = permit.call, permit.access
        return (
            call.profile is Profile.MODERN
            and access is not None
            and access.target.kind is Kind.TOOL
            and call.message.method == "tools/call"
            and declares_tasks(call.message)
        )

    def require_room(self, permit: Permit) -> None:
        """Return if a task of this call could be kept: before it is sent, as it cannot be undone.

        Raises:
            RateLimited: Too many are open, or hold too much.
            LimitExceeded: The call is too large to be kept.

        """
        if not self.may_begin(permit):
            return
        if len(permit.call.message.body) > _LARGEST:
            raise LimitExceeded(
                f"a call that may become a task is {_LARGEST // 1024} KiB at most: send less, or make it"
                " without declaring tasks"
            )
        if not self._store.has_room(permit.principal.person, _octets(permit.call)):
            raise RateLimited(
                "too many tasks are open, or they were called with too much: wait until one has"
                " ended, or cancel one"
            )

    async def begun(
        self, permit: Permit, access: AccessRequest, result: Mapping[str, Any], trail: Trail
    ) -> Mapping[str, Any]:
        """Return what the caller is told of a task, of which everything is durable by then.

        Nothing in it is the server's: what that says of it is read when it is asked.

        Raises:
            UpstreamFailed: It is no task as the extension has it.
            LimitExceeded: Too many are open.

        """
        begun, now, call = read_begun(result), self._clock(), permit.call
        longest = self._limits.longest_s
        lives_s = longest if begun.ttl_s is None else min(begun.ttl_s, longest)
        late = LateCall(
            id=LateId(self._new_id()),
            server=call.server,
            endpoint=call.endpoint,
            principal=permit.principal.key,
            person=permit.principal.person,
            run=permit.run.id,
            record=trail.intent_id,
            target=access.target.name,
            definition=str(access.pinned.manifest.digest),
            upstream_id=begun.upstream_id,
            params=original(call.message.params),
            octets=_octets(call),
            decision=kept_decision(permit.decision),
            joined=dict(trail.joined),
            began=now,
            expires_at=now + lives_s,
            poll_s=max(begun.poll_s, self._limits.poll_s),
            restored=call.restored,
            clean=is_clean(permit),
            progress=Progress(led=continues(call.message) and not permit.run.is_trusted),
            written=None if call.written is None else original(call.written),
        )
        await self._store.begin(late)
        trail.begun_late()
        frame = told(late, handle_of(self._seal_key, late), begun.status, now=now)
        return {**frame, "resultType": TASK}


def _octets(call: Call) -> int:
    """Return about how many bytes are kept of a call: where tokens were restored, as it was written too."""
    return len(call.message.body) * (1 if call.written is None else 2)
