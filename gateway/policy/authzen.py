"""Asking an AuthZEN decision point over HTTP (AuthZEN Authorization API 1.0, section 10)."""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import aiohttp
import orjson

from gateway.errors import PolicyUnavailable
from gateway.policy.circuit import Circuit
from gateway.policy.opinions import Opinion, evaluation, read_opinion, unusable
from gateway.policy.settings import DecisionPoint
from gateway.wire import jsontext

_CONNECTIONS: Final = 16
_OF_ONE: Final = _CONNECTIONS // 2
"""Of one who asks: whoever has it think for long leaves the others some."""
_MOST_BYTES: Final = 64 * 1024
"""Of an answer."""
_DEPTH: Final = 32
_WELL_KNOWN: Final = "/.well-known/authzen-configuration"
_OK: Final = 200


class AuthzenPoint:
    """One decision point. Where it is asked it says itself, in a document that must be its own.

    That it is not there now is no error: calls are refused until it is, and at once after some that
    have waited for it.
    """

    def __init__(self, point: DecisionPoint, clock: Callable[[], float] = time.monotonic) -> None:
        """Open nothing yet; `close` it in the end. `clock` counts seconds and never goes back."""
        self._point = point
        self._circuit = Circuit(clock)
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By who asks, for as long as they do."""
        self._endpoint = ""
        self._session: aiohttp.ClientSession | None = None

    async def opinion(self, asked: Mapping[str, Any]) -> Opinion:
        """Return what it says of a call now.

        Raises:
            PolicyUnavailable: No answer in time, or none of the agreed shape; or it is not asked, since it
                gave none too often.

        """
        body = orjson.dumps(evaluation(asked, self._point))
        principal = asked["principal"]
        who = f"{principal['iss']}|{principal['sub']}"
        attempt = self._circuit.admit(who)
        try:
            opinion = await self._answered(who, body)
        except PolicyUnavailable as error:
            # Nobody there is nobody for everybody; anything else may be of this question's making.
            is_away = isinstance(error.__cause__, aiohttp.ClientConnectorError)
            attempt.failed(error.detail, everybody=is_away)
            raise
        except BaseException:
            attempt.left()
            raise
        attempt.succeeded()
        return opinion

    async def _answered(self, who: str, body: bytes) -> Opinion:
        place = self._places.get(who) or asyncio.Semaphore(_OF_ONE)
        self._places[who] = place
        try:
            async with asyncio.timeout(self._point.deadline), place:
                if not self._endpoint:
                    self._endpoint = await self._found()
                return read_opinion(await self._fetched("POST", self._endpoint, body))
        except PolicyUnavailable:
            self._endpoint = ""  # it may be asked elsewhere by now: its document says where
            raise
        except (aiohttp.ClientError, OSError, ValueError, TypeError) as error:
            detail = f"{type(error).__name__}: {error}"
            raise PolicyUnavailable("the decision point gave no answer", detail=detail) from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _found(self) -> str:
        """Return where evaluations are asked, as the decision point's own document says (section 9.2).

        Raises:
            PolicyUnavailable: It is another one's document, or leads to another origin.

        """
        url = self._point.url
        at = urlsplit(url)
        document = await self._fetched("GET", f"{at.scheme}://{at.netloc}{_WELL_KNOWN}{at.path}")
        if type(document) is not dict or document.get("policy_decision_point") != url:
            raise unusable(f"the document at {url} is another decision point's")
        endpoint = document.get("access_evaluation_endpoint")
        if type(endpoint) is not str or urlsplit(endpoint)[:2] != at[:2]:
            raise unusable(f"the document at {url} leads elsewhere")
        return endpoint

    async def _fetched(self, method: str, url: str, body: bytes | None = None) -> Any:
        """Return the JSON of an answer. No redirect is followed: it would carry the question elsewhere.

        Raises:
            PolicyUnavailable: It is not answered with that.

        """
        headers = {} if body is None else {"Content-Type": "application/json"}
        async with self._opened().request(
            method, url, data=body, headers=headers, allow_redirects=False
        ) as answer:
            if answer.status != _OK or answer.content_type != "application/json":
                raise unusable(f"status {answer.status}, {answer.content_type}")
            parts = bytearray()
            async for chunk in answer.content.iter_any():
                parts += chunk
                if len(parts) > _MOST_BYTES:
                    raise unusable("the answer is too large")
            return jsontext.read_exact(bytes(parts), _DEPTH)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            point = self._point
            trusted = ssl.create_default_context(cafile=point.ca_file)
            self._session = aiohttp.ClientSession(
                headers={
                    # What is unpacked has no bound: a few KiB can be as many MB.
                    "Accept-Encoding": "identity",
                    **({"Authorization": f"Bearer {point.token}"} if point.token else {}),
                },
                auto_decompress=False,
                connector=aiohttp.TCPConnector(ssl=trusted, limit=_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session
