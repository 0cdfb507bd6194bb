"""A house as planes that ask by gRPC see it, and one exchange of `ext_proc` by hand."""

import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import sha256
from typing import Any

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.labels import ToolRule
from gateway.domain.planes import REPLACE_RESULT, Plane, PlaneKind, Reports
from gateway.domain.shares import Shares
from gateway.planes.doorman import Place, Rooms
from gateway.planes.exchange import ATTRIBUTES, ROUTE, Exchange
from gateway.planes.http_calls import CLAIMS, JWT
from gateway.planes.in_force import InForce
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY, MODERN_VERSION_KEY
from gateway.wire.jsontext import WireLimits
from tests.pipeline.house import ALICE, MAIL, TRUSTED, House, decision, text

KEY = "k" * 40
META = {MODERN_VERSION_KEY: "2026-07-28", MODERN_CAPABILITIES_KEY: {}}
CLAIMED = {"sub": ALICE.subject, "iss": ALICE.issuer, "client_id": ALICE.client_id}
PLANE = Plane(
    name="edge",
    key_digest=sha256(KEY.encode()).digest(),
    servers={"gh": MAIL},
    issuers=(ALICE.issuer,),
    scopes=ALICE.scopes,
    types={},
    kind=PlaneKind.EXT_PROC,
    duties=frozenset({REPLACE_RESULT}),
    deadline_s=60.0,
)
SILENT = replace(PLANE, kind=PlaneKind.EXT_AUTHZ, reports=Reports.NONE, duties=frozenset[str]())


async def opened_house() -> House:
    """Return a house in which everything is approved and allowed."""
    house = House(tools={"search": ToolRule(result=TRUSTED), "send": ToolRule(result=TRUSTED)})
    await house.approve_all()
    ids = itertools.count()
    house.rule.says = lambda _: replace(decision(Verdict.ALLOW), id=f"d_{next(ids)}")
    return house


def in_force(house: House, plane: Plane = PLANE) -> InForce:
    return InForce(
        planes={plane.name: plane},
        traffic=house.traffic,
        challenge=lambda endpoint: (f"https://gateway.example{endpoint}", ("tools:call",)),
        limits=WireLimits(),
    )


def lease(force: InForce) -> AbstractContextManager[InForce]:
    return nullcontext(force)


def nobody_counts(code: str, address: str) -> None:
    """Take note of nothing: what is refused unread is another test's."""


def call(**meta: Any) -> bytes:
    return message("tools/call", {"name": "search", "arguments": {"q": "x"}}, **meta)


def message(method: str, params: Mapping[str, Any], id_: Any = 7, **meta: Any) -> bytes:
    """Return a message of the stateless revision."""
    content = {
        "jsonrpc": "2.0",
        "id": id_,
        "method": method,
        "params": {**params, "_meta": {**META, **meta}},
    }
    return json.dumps({k: v for k, v in content.items() if v is not None}).encode()


def legacy(method: str, params: Mapping[str, Any]) -> bytes:
    content = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return json.dumps(content).encode()


def mirrored(body: bytes) -> list[tuple[str, str]]:
    """Return the headers that say what the body says, if it is of the stateless revision."""
    try:
        content = json.loads(body)
        params = content["params"]
        version = params["_meta"][MODERN_VERSION_KEY]
    except (ValueError, KeyError, TypeError):
        return []
    pairs = [("mcp-protocol-version", version), ("mcp-method", content["method"])]
    name = params.get("name", params.get("uri"))
    return pairs if name is None else [*pairs, ("mcp-name", name)]


def answered(result: Mapping[str, Any] | None = None, id_: Any = 7) -> bytes:
    said = text("found") if result is None else result
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": said}).encode()


def headers(pairs: Sequence[tuple[str, str]]) -> pb.HeaderMap:
    return pb.HeaderMap(
        headers=[pb.HeaderValue(key=name, raw_value=text.encode()) for name, text in pairs]
    )


def claimed(claims: Mapping[str, Any]) -> pb.Metadata:
    metadata = pb.Metadata()
    metadata.filter_metadata[JWT].update({CLAIMS: claims})
    return metadata


class Envoy:
    """Sends what Envoy does, in its order."""

    def __init__(
        self,
        house: House,
        plane: Plane = PLANE,
        *,
        of_each: Shares | None = None,
        rooms: Rooms | None = None,
    ) -> None:
        of_each = of_each or Shares(octets=1000, share=1000)
        self.place = Place(plane, of_each, nobody_counts, rooms)
        self.force = in_force(house, plane)
        self.exchange = Exchange(self.place, endpoint="/planes/ext_proc", source_ip="192.0.2.1")

    async def answered(self, request: pb.ProcessingRequest) -> pb.ProcessingResponse:
        return await self.exchange.answered(self.force, request)

    async def begin(
        self,
        *more: tuple[str, str],
        method: str = "POST",
        claims: Mapping[str, Any] = CLAIMED,
        route: str = "gh",
        modes: tuple[int, int] | None = (pb.BodySendMode.BUFFERED, pb.BodySendMode.BUFFERED),
        ends: bool = False,
        watches: bool = False,
    ) -> pb.ProcessingResponse:
        if ":path" not in dict(more):
            more = ((":path", "/mcp/gh"), *more)
        pairs = [(":method", method), ("content-type", "application/json"), *more]
        request = pb.ProcessingRequest(
            request_headers=pb.HttpHeaders(headers=headers(pairs), end_of_stream=ends),
            metadata_context=claimed(claims),
            observability_mode=watches,
        )
        if modes is not None:
            request.protocol_config.request_body_mode = modes[0]  # type: ignore[assignment]
            request.protocol_config.response_body_mode = modes[1]  # type: ignore[assignment]
        request.attributes[ATTRIBUTES].update({ROUTE: route})
        return await self.answered(request)

    async def body(self, body: bytes, *, whole: bool = True) -> pb.ProcessingResponse:
        request = pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=whole))
        return await self.answered(request)

    async def asked(
        self, body: bytes, *more: tuple[str, str], **said: Any
    ) -> pb.ProcessingResponse:
        """Send a whole request, and return what Envoy does about it."""
        began = await self.begin(*mirrored(body), *more, **said)
        assert began.WhichOneof("response") == "request_headers"
        return await self.body(body)

    async def back(
        self,
        body: bytes | None,
        *more: tuple[str, str],
        status: int = 200,
        media: str = "application/json",
        whole: bool = True,
    ) -> pb.ProcessingResponse:
        """Send a whole answer, and return what Envoy does about it."""
        pairs = [(":status", str(status)), ("content-type", media), *more]
        head = pb.HttpHeaders(headers=headers(pairs), end_of_stream=body is None)
        response = await self.answered(pb.ProcessingRequest(response_headers=head))
        if body is None:
            return response
        assert response.WhichOneof("response") == "response_headers"
        request = pb.ProcessingRequest(response_body=pb.HttpBody(body=body, end_of_stream=whole))
        return await self.answered(request)


def on_record(house: House) -> list[AuditRecord]:
    """Return what the record has of calls, intents and how they ended."""
    return [one for one in house.audit.records if one.kind is not RecordKind.PIN]


def refusal(response: pb.ProcessingResponse) -> str:
    """Return the code of the no that Envoy answers with."""
    assert response.WhichOneof("response") == "immediate_response", response
    content = json.loads(response.immediate_response.body)
    data = content.get("error", {}).get("data") or {}
    meta = content.get("result", {}).get("_meta", {}).get("douane/refusal", {})
    found = data or meta
    reasons = found.get("reasons") or [found]
    return str(reasons[0].get("code", ""))


def sent(response: pb.ProcessingResponse) -> pb.CommonResponse:
    """Return what Envoy sends on of a request."""
    assert response.WhichOneof("response") == "request_body", response
    return response.request_body.response


def given(response: pb.ProcessingResponse) -> bytes:
    """Return what Envoy gives out of an answer."""
    assert response.WhichOneof("response") == "response_body", response
    return response.response_body.response.body_mutation.body
