"""What a message says beside what was decided on, as it goes out and as it comes home.

A request's id, a token, the name of a program, the state of a trace: the protocol has a place for
each and leaves to the caller what stands there. From a run that has read what is private, or what an
outsider wrote, nothing of the caller's choosing goes out there: ids and tokens are of ours, what the
server has not heard before is left out, and only what it gave out itself comes back to it. Neither does
the text say anything that its values do not: blanks and spellings are ours as well.
"""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gateway.domain._value import value
from gateway.domain.bounded import ByIdentity, Shared, digest_of, octets_of
from gateway.domain.calls import Form, Message, Permit, ServerEvent
from gateway.domain.nodes import weight
from gateway.domain.tools import OWN
from gateway.errors import Denied
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.extensions import DECLARING, with_params
from gateway.wire.fixed import says_only_its_call
from gateway.wire.headers import NAME, PARAM_PREFIX, decode, encode
from gateway.wire.in_our_name import hear
from gateway.wire.inbound import MODERN_CAPABILITIES_KEY
from gateway.wire.jsontext import WireLimits
from gateway.wire.operations import CANCELLED
from gateway.wire.outgoing import CLIENT, KNOWN_ABOUT, SUBSCRIPTION
from gateway.wire.param_headers import params_mirrored
from gateway.wire.server_message import ServerMessage, read_server_message, with_members
from gateway.wire.sse import event_id
from gateway.wire.tracing import is_parent

_MOST: Final = 20_000
_OCTETS: Final = 8 * 1024**2
"""Of each table. What is forgotten of a request is that it can be cancelled, or resumed on another
stream; its own answer is known by what went out."""
_FIRST: Final = 2**40
"""Above what any client counts to; servers take a whole number for an id that take nothing else."""
_META: Final = "_meta"
_MARK: Final = "progressToken"
_REQUEST: Final = "requestId"
_PROGRESS: Final = "notifications/progress"
_PROGRAM: Final = "clientInfo"
_SMALL: Final = 64 * 1024
"""Bytes of a message in which it is looked at what the client calls itself."""
_RESUMES: Final = "last-event-id"
_PARENT: Final = "traceparent"
_STATE: Final = "tracestate"
_SOMEBODY: Final = {"name": "client", "version": "0"}
_ABILITIES: Final = "capabilities"
_NONE: Final[Mapping[str, Any]] = {}
_USUAL: Final[tuple[Mapping[str, Any], ...]] = ({}, {"mimeTypes": ["text/html;profile=mcp-app"]})
"""Settings of extensions that say nothing, because everybody has them: of interfaces there is one type."""
_WRITTEN: Final = frozenset({Form.REQUEST, Form.NOTIFICATION})

RpcId: TypeAlias = str | int


@value
class _Owner:
    """Whoever speaks with a server in a session."""

    name: bytes
    at: bytes
    """The same principal at the same server, in whichever session: who shares the tables."""


class Asides:
    """Names requests and tokens, and knows what each is called on the other side."""

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST + secrets.randbelow(_FIRST))
        self._called: Shared[bytes, bytes, RpcId] = Shared(octets=_OCTETS)
        """By whose it is and what the client calls it: what its server calls it."""
        self._homes: Shared[bytes, RpcId, tuple[bytes, RpcId]] = Shared(octets=_OCTETS)
        """By the name that we gave it: whose it is, and what the client calls it."""
        self._owners: ByIdentity[tuple[tuple[str, str | None], _Owner]] = ByIdentity(
            most=_MOST, octets=_OCTETS
        )
        self._heard: Shared[bytes, bytes, bool] = Shared(octets=_OCTETS)
        """What servers gave out here, and what they have heard while there was nothing to tell."""

    async def going(self, permit: Permit) -> Permit:
        """Return `permit` as it goes to its server: the very same, where nothing is changed.

        Raises:
            Denied: It brings back what was not given out.

        """
        call = permit.call
        message = call.message
        if call.server == OWN:
            return permit
        if message.form is Form.RESPONSE:
            answer = await _answer(permit)
            return (
                permit if answer is message else replace(permit, call=replace(call, message=answer))
            )
        wary = permit.run.has_read
        id_, params = self._said(permit, wary=wary)
        anew = wary and message.form in _WRITTEN
        if anew or id_ != message.id or params != message.params:
            told = replace(message, id=id_)
            message = await finished(
                permit.principal.person, weight(message.body), with_params, told, params
            )
        headers = self._fields(permit) if wary else call.headers
        if message is call.message and headers == call.headers:
            return permit
        return replace(permit, call=replace(call, message=message, headers=headers))

    async def home(self, permit: Permit, went: Message, message: ServerMessage) -> ServerMessage:
        """Return what a server said as its client knows it, under the client's own names.

        `went` is what went out for `permit`: under what names, nobody has to remember.
        """
        if message.form is Form.RESPONSE and message.id == permit.call.message.id:
            return message  # its request went out under the client's own name
        owner = self._owner(permit)
        if message.form is Form.REQUEST:
            if isinstance(token := _about(message).get(_MARK), str | int):
                self._hear(owner, digest_of(owner.name, _MARK, token))
            return message
        changed = self._named(owner, _names(permit.call.message, went), message)
        if not changed:
            return message
        who = permit.principal.person
        return await finished(who, weight(message.data), with_members, message, changed)

    def _named(
        self, owner: _Owner, names: Mapping[RpcId, Any], message: ServerMessage
    ) -> Mapping[str, Any]:
        """Return the members of `message` in which its client is told another name, if any."""
        if message.form is Form.RESPONSE:
            id_ = self._home(owner, names, message.id)
            return {} if id_ == message.id else {"id": id_}
        params, about = message.params, _about(message)
        told = {
            name: named
            for name in (_MARK, _REQUEST)
            if (named := self._home(owner, names, params.get(name))) != params.get(name)
        }
        followed = self._home(owner, names, about.get(SUBSCRIPTION))
        if followed != about.get(SUBSCRIPTION):
            told[_META] = {**about, SUBSCRIPTION: followed}
        return {"params": {**params, **told}} if told else {}

    def gave(self, permit: Permit, event: ServerEvent) -> None:
        """Note which event a stream can be resumed after."""
        if id_ := event_id(event):
            owner = self._owner(permit)
            self._hear(owner, digest_of(owner.name, _RESUMES, id_))

    def heads(self, permit: Permit) -> tuple[tuple[str, str], ...]:
        """Return the header fields under which a message goes to its server, whatever its text says.

        Raises:
            Denied: It resumes a stream after what was not given out.

        """
        return self._fields(permit) if permit.run.has_read else permit.call.headers

    def _fields(self, permit: Permit) -> tuple[tuple[str, str], ...]:
        """Return the header fields that go on from a run that has something to tell."""
        call, access = permit.call, permit.access
        arguments = call.message.params.get("arguments") or {}
        definition = None if access is None else access.pinned.manifest.definition
        mirrored = {} if definition is None else dict(params_mirrored(arguments, definition))
        for name, said in call.headers:
            if name == _RESUMES and not self._has_heard(self._owner(permit), _RESUMES, said):
                raise Denied("a stream is resumed after an event that was not given out here")
        return tuple(
            (name, _spelled(name, said, mirrored))
            for name, said in call.headers
            if name != _STATE and (not name.startswith(PARAM_PREFIX) or name in mirrored)
        )

    def _said(self, permit: Permit, *, wary: bool) -> tuple[RpcId | None, Mapping[str, Any]]:
        """Return the id under which a message goes out, and its params."""
        owner, message = self._owner(permit), permit.call.message
        id_ = message.id
        if message.form not in _WRITTEN:
            return id_, message.params
        if id_ is not None:
            id_ = self._name(owner, "id", id_, wary=wary)
        if says_only_its_call(message):
            return id_, message.params
        params = dict(message.params)
        if message.method == CANCELLED and isinstance(params.get(_REQUEST), str | int):
            params[_REQUEST] = self._name(owner, "id", params[_REQUEST], wary=wary, again=True)
        if (
            wary
            and message.method == _PROGRESS
            and not self._has_heard(owner, _MARK, params.get(_MARK))
        ):
            params[_MARK] = next(self._numbers)  # which is nobody's
        small = len(message.body) <= _SMALL
        if isinstance(meta := params.get(_META), dict):
            params[_META] = self._meta(owner, meta, wary=wary, small=small)
        if _PROGRAM in params:
            params[_PROGRAM] = self._program(owner, params[_PROGRAM], wary=wary, small=small)
        if _ABILITIES in params:
            params[_ABILITIES] = self._abilities(owner, params[_ABILITIES], wary=wary, small=small)
        return id_, params

    def _meta(
        self, owner: _Owner, meta: Mapping[str, Any], *, wary: bool, small: bool
    ) -> Mapping[str, Any]:
        kept = dict(meta)
        if isinstance(token := kept.get(_MARK), str | int):
            kept[_MARK] = self._name(owner, "token", token, wary=wary)
        if CLIENT in kept:
            kept[CLIENT] = self._program(owner, kept[CLIENT], wary=wary, small=small)
        if (declared := kept.get(MODERN_CAPABILITIES_KEY)) is not None:
            kept[MODERN_CAPABILITIES_KEY] = self._abilities(owner, declared, wary=wary, small=small)
        known = (KNOWN_ABOUT - {_STATE}) | {_MARK}
        if not is_parent(kept.get(_PARENT)):
            known -= {_PARENT}
        # As one: who may choose among many members that were heard can say a bit with each.
        whole = {name: inner for name, inner in meta.items() if name not in known | {_STATE}}
        if whole and self._hears(owner, _META, whole, wary=wary, small=small):
            known |= whole.keys()
        if _STATE in meta and self._hears(owner, _STATE, meta[_STATE], wary=wary, small=small):
            known |= {_STATE}
        if not wary:
            return kept
        if isinstance(followed := kept.get(SUBSCRIPTION), str | int):
            kept[SUBSCRIPTION] = self._name(owner, "id", followed, wary=wary, again=True)
        return {name: inner for name, inner in kept.items() if name in known}

    def _name(
        self, owner: _Owner, kind: str, id_: RpcId, *, wary: bool, again: bool = False
    ) -> RpcId:
        """Return what the server is told in place of `id_`; what was told before, if it is `again`."""
        key = digest_of(owner.name, kind, id_)
        if again and (called := self._called.get(owner.at, key)) is not None:
            return called
        if not wary:
            called = id_
        else:
            called = next(self._numbers)
            self._homes.put(owner.at, called, (owner.name, id_), len(str(id_)))
        self._called.put(owner.at, key, called, len(str(called)))
        return called

    def _home(self, owner: _Owner, names: Mapping[RpcId, Any], id_: Any) -> Any:
        if not isinstance(id_, int):
            return id_
        if id_ in names:
            return names[id_]
        found = self._homes.get(owner.at, id_)
        return id_ if found is None or found[0] != owner.name else found[1]

    def _program(self, owner: _Owner, program: Any, *, wary: bool, small: bool) -> Any:
        """Return what a client calls itself, as far as its server has heard it before."""
        heard = self._hears(owner, _PROGRAM, program, wary=wary, small=small)
        return program if heard else _SOMEBODY

    def _abilities(self, owner: _Owner, declared: Any, *, wary: bool, small: bool) -> Any:
        """Return what a client says it can do: of the settings of extensions what was heard before."""
        if not isinstance(declared, dict) or DECLARING.isdisjoint(declared):
            return declared
        return {
            name: {
                named: settings
                if settings in _USUAL or self._hears(owner, named, settings, wary=wary, small=small)
                else _NONE
                for named, settings in inner.items()
            }
            if name in DECLARING and isinstance(inner, dict)
            else inner
            for name, inner in declared.items()
        }

    def _hears(self, owner: _Owner, name: str, said: Any, *, wary: bool, small: bool) -> bool:
        """Whether a server may be told what a client `said` under `name`: it heard it while all could be."""
        key = _said_as(owner.name, name, said) if small else b""
        if not wary:
            if small:
                self._hear(owner, key)
            return True
        return self._heard.get(owner.at, key) is not None

    def _hear(self, owner: _Owner, key: bytes) -> None:
        self._heard.put(owner.at, key, kept=True)

    def _owner(self, permit: Permit) -> _Owner:
        """Return a name for whoever speaks with this server in this session."""
        principal, place = permit.principal, (permit.call.server, permit.session)
        known = self._owners.get(principal)
        if known is None or known[0] != place:
            server, session = place
            name = digest_of(server, principal.key, principal.script, session)
            known = place, _Owner(name=name, at=digest_of(server, principal.key))
            self._owners.put(known, principal, octets=octets_of((principal, place)))
        return known[1]

    def _has_heard(self, owner: _Owner, kind: str, given: Any) -> bool:
        """Whether a server gave out a token, or the id of an event, here."""
        if not isinstance(given, str | int):
            return False
        return self._heard.get(owner.at, digest_of(owner.name, kind, given)) is not None


async def heard(permit: Permit, data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the message in `data`; of a server's, without what it says in our name.

    Raises:
        UpstreamFailed: It is no message, or one that two readers would read as two.

    """
    read = read_server_message if permit.call.server == OWN else hear
    return await finished(permit.principal.person, weight(data), read, data, limits)


def _spelled(name: str, said: str, mirrored: Mapping[str, str]) -> str:
    """Return what a header says in our spelling: of what mirrors the body there may be several."""
    if name == NAME and (text := decode(said)) is not None:
        return encode(text)
    return mirrored.get(name, said)


async def _answer(permit: Permit) -> Message:
    """Return an answer to a server's request as it goes out: what it says of itself nobody is told."""
    message = permit.call.message
    if not permit.run.has_read:
        return message
    kept = {name: inner for name, inner in message.params.items() if name != _META}
    who = permit.principal.person
    return await finished(who, weight(message.body), with_params, message, kept)


def _said_as(owner: bytes, name: str, inner: Any) -> bytes:
    """Return by what it is known again that a server has heard this."""
    return digest_of(owner, _META, name, jsontext.write(inner))


def _names(asked: Message, went: Message) -> Mapping[RpcId, Any]:
    """Return what a client calls what its own message went out under in names of ours."""
    told = ((went.id, asked.id), (_about(went).get(_MARK), _about(asked).get(_MARK)))
    return {ours: own for ours, own in told if isinstance(ours, int) and ours != own}


def _about(message: ServerMessage | Message) -> Mapping[str, Any]:
    meta = message.params.get(_META)
    return meta if isinstance(meta, dict) else {}
