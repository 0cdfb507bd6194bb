"""Permits as the pipeline makes them, for tests of what happens after."""

import json
from collections.abc import Sequence
from typing import Any

from gateway.domain.calls import Call, CallId, Form, Message, Permit
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.flow import Run, RunId
from gateway.domain.identity import BearerToken, Principal
from gateway.domain.labels import Confidentiality, Integrity, Label
from gateway.domain.premises import Premises
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import CredentialRequired

INBOUND_TOKEN = "inbound-token-of-the-client"
WHERE = "https://douane.test/connect/raw"
"""Where people connect."""

SENT_ON = (
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
)


def permit_for(
    method: str = "tools/call",
    *,
    form: Form = Form.REQUEST,
    profile: Profile = Profile.MODERN,
    rpc_id: str | int | None = 7,
    params: dict[str, Any] | None = None,
    headers: tuple[tuple[str, str], ...] = SENT_ON,
    session: str | None = None,
    body: bytes | None = None,
) -> Permit:
    """Return leave to forward one message."""
    message = {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params or {}}
    if form in {Form.STREAM, Form.END}:
        body = b""
    call = Call(
        id=CallId("c1"),
        endpoint="/mcp/raw",
        server=UpstreamId("raw"),
        message=Message(
            form=form,
            method=method,
            id=rpc_id,
            params=params or {},
            body=json.dumps(message).encode() if body is None else body,
        ),
        revision="2026-07-28" if profile is Profile.MODERN else "2025-11-25",
        profile=profile,
        headers=headers,
        credential=BearerToken(text=INBOUND_TOKEN),
        session=None if session is None else f"sealed-{session}",
        source_ip="127.0.0.1",
    )
    return Permit(
        call=call,
        principal=Principal(
            issuer="http://127.0.0.1:8080",
            subject="alice",
            client_id="c",
            client_name="host",
            groups=frozenset(),
            scopes=frozenset({"tools:call"}),
            token_id="t1",
            expires_at=2_000_000_000.0,
            people=0,
        ),
        run=Run(
            id=RunId("r1"),
            label=Label(integrity=Integrity.TRUSTED, confidentiality=Confidentiality.PUBLIC),
        ),
        decision=Decision(id="d1", verdict=Verdict.ALLOW, reasons=(), policy_digest="sha256:0"),
        access=None,
        premises=Premises(run=RunId("r1"), version=0, policy="sha256:0", people=0),
        session=session,
    )


class Connected:
    """Gives whoever has a name a credential of their own, and never another one."""

    async def headers(
        self, server: str, user_id: str, principal_key: str, *, verb: str = "POST"
    ) -> Sequence[tuple[str, str]]:
        if not user_id:
            raise CredentialRequired("connect", url=WHERE)
        return (("authorization", f"Bearer {user_id}"),)

    async def rejected(
        self,
        server: str,
        user_id: str,
        *,
        shown: Sequence[tuple[str, str]],
        status: int,
        challenge: str,
        nonce: str = "",
        verb: str = "POST",
    ) -> Sequence[tuple[str, str]]:
        raise CredentialRequired("connect anew", url=WHERE)
