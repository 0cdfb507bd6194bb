"""Asking an OPA server over its REST API."""

import asyncio
import hashlib
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from opa_client.opa_async import AsyncOpaClient  # type: ignore[import-untyped]

from gateway.domain.decisions import Decision
from gateway.errors import PolicyUnavailable
from gateway.policy.answer import (
    read_decision,
    read_disposition,
    read_pin_approvals,
    read_self_approval,
)
from gateway.policy.ids import new_decision_id
from gateway.policy.naming import Naming
from gateway.policy.settings import OpaServer

_CONNECTIONS = 16
"""At once. More would wait inside OPA, where a deadline does not reach them."""

_PROVENANCE = {"provenance": "true"}
_OURS = re.compile(r"(?m)(?:^|\0)[ \t]*package[ \t]+douane[ \t\r]*(?:[#;].*)?$")
"""How Rego begins that answers what we ask, behind its file's name; see `OpaClient.sources`."""


class OpaClient(AsyncOpaClient):  # type: ignore[misc]
    """The library's client over one bounded pool, without its redirects and its slow retries.

    A decision is asked within a deadline of a fraction of a second; the library's first pause
    before a retry is longer than that.
    """

    def __init__(
        self, url: str, *, token: str, ca_file: Path | None = None, socket: Path | None = None
    ) -> None:
        super().__init__(token=token or None, retries=0)
        self.root_url = f"{url.rstrip('/')}/v1"
        self._ca_file = ca_file
        self._socket = socket

    async def open(self) -> None:
        """Open the pool; `close_connection` closes it."""
        await self._init_session()

    async def sources(self) -> list[str]:
        """Return the name and the text of every policy file that the server has."""
        async with self._request("GET", f"{self.root_url}/policies") as answer:
            answer.raise_for_status()
            policies = orjson.loads(await answer.read())["result"]
        return sorted(f"{policy['id']}\0{policy['raw']}" for policy in policies)

    async def _init_session(self) -> None:
        self._session = aiohttp.ClientSession(
            headers=self.headers,
            connector=self._new_connector(),
            json_serialize=lambda body: orjson.dumps(body).decode(),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _new_connector(self) -> aiohttp.BaseConnector:
        if self._socket is not None:
            return aiohttp.UnixConnector(path=str(self._socket), limit=_CONNECTIONS)
        trusted = ssl.create_default_context(cafile=self._ca_file)
        return aiohttp.TCPConnector(ssl=trusted, limit=_CONNECTIONS)

    @asynccontextmanager
    async def _request(
        self, method: str, url: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        # A redirect would carry the question, and who asks, to somewhere nobody configured.
        async with self._session.request(method, url, allow_redirects=False, **options) as answer:
            yield answer


class RestEngine:
    """Answers from an OPA server, each within `deadline` seconds.

    `digest` is given where the policy is known here, because the server is the gateway's own;
    otherwise it is the revision that the server says its bundles have.
    """

    def __init__(
        self,
        client: OpaClient,
        *,
        deadline: float,
        digest: str = "",
        new_id: Callable[[], str] = new_decision_id,
        renamed: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `renamed` when the server turns out to have another policy than before."""
        self._renamed = renamed
        self._client = client
        self._deadline = deadline
        self._naming = Naming(digest)
        self._known = bool(digest)
        self._new_id = new_id

    @classmethod
    async def connect(
        cls, server: OpaServer, *, deadline: float, renamed: Callable[[], None] = lambda: None
    ) -> "RestEngine":
        """Open a pool to a central server, and learn which policy it has.

        That the server does not answer now is no error: decisions are refused until it does.
        """
        client = OpaClient(server.url, token=server.token, ca_file=server.ca_file)
        await client.open()
        engine = cls(client, deadline=deadline, renamed=renamed)
        try:
            await engine.refresh()
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def digest(self) -> str:
        """Names the policy in force, as far as it was last seen; empty before any was."""
        return self._naming.newest

    def holds(self, digest: str) -> bool:
        """Whether what the policy of this name decided may be done still; see `PolicyEngine`.

        Behind one address there may be servers of which one has the next policy already.
        """
        return self._naming.holds(digest)

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question.

        Raises:
            PolicyUnavailable: No answer in time, or not one of the agreed shape.

        """
        answer = await self._ask("decision", question)
        return read_decision(
            answer.get("result"), id_=self._new_id(), policy_digest=self._policy_of(answer)
        )

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order, all by the same policy.

        Raises:
            PolicyUnavailable: One has no usable answer, or the policy changed in between.

        """
        decisions: list[Decision] = []
        for start in range(0, len(questions), _CONNECTIONS):
            batch = questions[start : start + _CONNECTIONS]
            decisions += await asyncio.gather(*map(self.evaluate, batch))
        if len({decision.policy_digest for decision in decisions}) > 1:
            raise PolicyUnavailable("the policy changed while it was asked")
        return decisions

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Ask what is to become of a changed manifest."""
        return read_disposition((await self._ask("pin", question)).get("result"))

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask how many people must approve a definition; one, if the policy does not say.

        Raises:
            PolicyUnavailable: No answer in time, or not one of the agreed shape; or none, and
                nothing shows that the server has a policy.

        """
        answer = await self._ask("pin_approvals", question)
        if "result" not in answer and not self._known:
            # A server that has begun anew and not loaded its policy yet answers as one whose policy
            # has no such rule; it may have another bundle's revision, and Rego that says who may ask.
            if not any(map(_OURS.search, await self._sources())):
                raise PolicyUnavailable("the policy server does not show that it has its policy")
            # Asked once more: the first answer may be of the moment before it had one.
            answer = await self._ask("pin_approvals", question)
        return read_pin_approvals(answer.get("result", 1))

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Ask whether the person whose call it is may say yes to it; no, if the policy is silent.

        Raises:
            PolicyUnavailable: No answer in time.

        """
        return read_self_approval((await self._ask("self_approval", question)).get("result"))

    async def refresh(self) -> str:
        """Look again which policy the server has, and return its name; empty if it cannot say."""
        if not self._known:
            try:
                answer = await self._ask("pin", {})
            except PolicyUnavailable:
                return self.digest
            if not _revision(answer):
                number = self._naming.ask()
                sources = await self._sources()
                digest = f"sha256:{hashlib.sha256(orjson.dumps(sources)).hexdigest()}"
                self._name(number, digest if sources else "")
        return self.digest

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close_connection()

    async def _ask(self, entrypoint: str, question: Mapping[str, Any]) -> dict[str, Any]:
        number = self._naming.ask()
        try:
            async with asyncio.timeout(self._deadline):
                answer = await self._query(entrypoint, question)
        except (aiohttp.ClientError, OSError, ValueError, TypeError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise PolicyUnavailable("the policy server gave no answer", detail=detail) from error
        if not isinstance(answer, dict):
            raise PolicyUnavailable("the policy server gave no usable answer")
        if not self._known and (revision := _revision(answer)):
            self._name(number, revision)
        return answer

    def _name(self, number: int, digest: str) -> None:
        """Take note of which policy answered a question."""
        if self._naming.heard(digest, number):
            self._renamed()

    async def _query(self, entrypoint: str, question: Mapping[str, Any]) -> Any:
        try:
            return await self._client.query_rule(question, "douane", entrypoint, _PROVENANCE)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # The pool gave us a connection that the server had just closed. Asking changes nothing.
            return await self._client.query_rule(question, "douane", entrypoint, _PROVENANCE)

    def _policy_of(self, answer: Mapping[str, Any]) -> str:
        found = self.digest if self._known else _revision(answer) or self.digest
        if not found:
            raise PolicyUnavailable("the policy server does not say which policy it has")
        return found

    async def _sources(self) -> list[str]:
        """Return the server's Rego; nothing if it does not say."""
        try:
            async with asyncio.timeout(self._deadline):
                return await self._client.sources()
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):
            return []


def _revision(answer: Mapping[str, Any]) -> str:
    """Name the policy by its bundles' revisions; a bundle without one leaves it unnamed."""
    provenance = answer.get("provenance")
    bundles = provenance.get("bundles") if isinstance(provenance, dict) else None
    if not isinstance(bundles, dict) or not bundles:
        return ""
    named = []
    for name, bundle in sorted(bundles.items()):
        revision = bundle.get("revision") if isinstance(bundle, dict) else None
        if not isinstance(revision, str) or not revision:
            return ""
        named.append(f"{name}={revision}")
    return f"revision:{','.join(named)}"
