"""The tool-descriptions extension: brief lists, and whole descriptions that are read before a call.

Who has read what is a state of disclosure. It keeps a model from guessing at arguments, and gives
nobody leave to do anything: that is policy's, afterwards.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from gateway.builtin import briefs
from gateway.builtin.names import public_name
from gateway.builtin.offers import Offer, Offers, require_room
from gateway.builtin.shelf import of_client
from gateway.domain._value import value
from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.calls import Call, OriginKind, Permit
from gateway.domain.descriptions import NO_GUIDANCE, Guidance, Reader, description_id
from gateway.domain.document import Document
from gateway.domain.identity import Principal
from gateway.domain.nodes import most_nodes
from gateway.domain.tools import OWN, Kind, Pinned, Profile, Target
from gateway.errors import BadCommand, DescriptionRequired, UnknownTool
from gateway.ports import Clock
from gateway.ports.descriptions import DisclosureStore
from gateway.turns import finished
from gateway.wire import jsontext
from gateway.wire.eras import is_stateless

_MOST_WEIGHED: Final = 256
_OCTETS: Final = 16 * 1024**2
_PLACE: Final = 16
"""Bytes of a place in a list, which may be kept by nobody else any more."""
"""Principals of whom it is kept whether their list is a long one."""

_Weighed: TypeAlias = tuple[Sequence[Offer], bool]


class Mode(StrEnum):
    """Whether lists are brief, and descriptions have to be read."""

    OFF = "off"
    AUTO = "auto"
    """If a list of everything would cost too much."""
    ON = "on"


@value
class Settings:
    """For whom the extension is in force, and for how long a reading counts."""

    mode: Mode = Mode.OFF
    clients: Mapping[str, Mode]
    """By a client's id, or its name."""
    core: frozenset[str] = frozenset()
    """Public names of tools that are always listed whole, and need not be read."""
    guidance: Mapping[Target, Guidance]
    idle_s: float = 3600.0
    cleanup_s: float = 600.0


class Scale(Protocol):
    """What says how long a list may be."""

    def fits(self, principal: Principal, offers: Sequence[Offer]) -> bool:
        """Whether a list of all of `offers`, whole, costs the principal's client little enough."""
        ...


class Descriptions:
    """Says what is told of tools, keeps to whom it was told, and holds calls back until it was."""

    def __init__(
        self,
        settings: Settings,
        *,
        offers: Offers,
        scale: Scale,
        store: DisclosureStore,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._offers = offers
        self._scale = scale
        self._store = store
        self._clock = clock
        self._cleaned = clock()
        self._weighed: Bounded[bytes, _Weighed] = Bounded(most=_MOST_WEIGHED, octets=_OCTETS)

    # For whom.

    @property
    def are_possible(self) -> bool:
        """Whether there may be clients that get brief lists."""
        return {self._settings.mode, *self._settings.clients.values()} != {Mode.OFF}

    async def are_in_force(self, call: Call, principal: Principal) -> bool:
        """Whether this client gets brief lists.

        Raises:
            PolicyUnavailable: Nobody knows what it may see.

        """
        settings = self._settings
        match of_client(settings.clients, principal) or settings.mode:
            case Mode.OFF:
                return False
            case Mode.ON:
                return True
            case Mode.AUTO:
                return await self._is_long(_as_client(call), principal)

    async def _is_long(self, call: Call, principal: Principal) -> bool:
        offers = await self._offers.of(call, principal, Kind.TOOL)
        key = digest_of(principal.key, call.profile, call.session)
        known = self._weighed.get(key)
        if known is None or known[0] is not offers:
            known = offers, not self._scale.fits(principal, offers)
            self._weighed.put(key, known, _PLACE * len(offers))
        return known[1]

    def _is_core(self, name: str) -> bool:
        return name in self._settings.core

    def guidance(self, target: Target) -> Guidance:
        """Return what the operator says of a tool."""
        return self._settings.guidance.get(target, NO_GUIDANCE)

    # The first stage: which tool.

    async def worded(self, permit: Permit, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Return `offers` of tools as they are listed to the caller of `permit`."""
        if not await self.are_in_force(permit.call, permit.principal):
            return offers
        return [
            offer
            if self._is_core(offer.name)
            else briefs.briefly(offer, self.guidance(offer.target).brief)
            for offer in offers
        ]

    async def _offered(self, permit: Permit) -> Sequence[Offer]:
        return await self._offers.of(permit.call, permit.principal, Kind.TOOL)

    # The second: how it is called.

    async def read(self, permit: Permit, own: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the result of a read of the resource; what it describes counts as read.

        `own` are definitions of the gateway's own tools, by name. What the caller may not know of is
        not there.

        Raises:
            UnknownTool: The extension is not in force for this client.
            PolicyUnavailable: Nobody knows what may be shown.
            AuditUnavailable: It cannot be kept that they were read.

        """
        if not await self.are_in_force(permit.call, permit.principal):
            raise UnknownTool("there is no resource of this name")
        uri = permit.call.message.params["uri"]
        told = await self._described(permit, uri, own)
        content = {"uri": uri, "mimeType": "application/json", "text": jsontext.write(told)}
        return {"contents": [content]}

    async def _described(
        self, permit: Permit, uri: str, own: Mapping[str, Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        offered = {offer.name: offer for offer in await self._offered(permit)}
        available = [*own, *offered]
        try:
            names = briefs.selected(uri)
            described = [offered[name] for name in names if name in offered]
            require_room(described)
        except BadCommand as error:
            return briefs.not_selected("TOO_MANY_TOOLS", error.public, available)
        if not names:
            message = "Say which tools: add ?tools= and their names."
            return briefs.not_selected("MISSING_TOOL_SELECTION", message, available)
        await self.note(permit, described)
        nodes = most_nodes(sum(len(offer.text) for offer in described))
        whole = await finished(permit.principal.person, nodes, self._whole, described)
        whole |= {name: briefs.whole_description(own[name], "") for name in names if name in own}
        return {name: whole.get(name) or briefs.not_found(name, available) for name in names}

    def _whole(self, offers: Sequence[Offer]) -> dict[str, Mapping[str, Any]]:
        return {
            offer.name: briefs.whole_description(
                json.loads(offer.text), str(offer.definition.digest), self.guidance(offer.target)
            )
            for offer in offers
        }

    async def print_of(self, permit: Permit, uri: str) -> str | None:
        """Return what is another text whenever the resource at `uri` describes something otherwise.

        `None`: there is no such resource for the caller of `permit`.

        Raises:
            PolicyUnavailable: Nobody knows what may be shown.

        """
        if not await self.are_in_force(permit.call, permit.principal):
            return None
        try:
            names = briefs.selected(uri)
        except BadCommand:
            return None
        described = [
            self._id(offer.target, offer.definition)
            for offer in await self._offered(permit)
            if not names or offer.name in names
        ]
        return hashlib.sha256("\n".join(described).encode()).hexdigest()

    async def note(self, permit: Permit, offers: Sequence[Offer]) -> None:
        """Keep that the caller of `permit` is told the whole of `offers`, before it is.

        Raises:
            AuditUnavailable: It cannot be kept.

        """
        if not offers or not await self.are_in_force(permit.call, permit.principal):
            return
        await self._clean()
        reader = _reader(permit.call, permit.principal)
        described = [self._id(offer.target, offer.definition) for offer in offers]
        await self._store.disclose(reader, described, now=self._clock())

    # The gate.

    async def require_read(self, call: Call, principal: Principal, pinned: Pinned) -> None:
        """Return if `call`, of a tool in front of all servers, is of none that its caller was told of only briefly.

        Raises:
            DescriptionRequired: It is of one.
            PolicyUnavailable: Nobody knows what its caller is shown.
            AuditUnavailable: It cannot be kept that the description is in use.

        """
        target = pinned.manifest.target
        if target.server == OWN:
            return  # what we list of ourselves is always whole
        name = public_name(target)
        if self._is_core(name) or not await self.are_in_force(call, principal):
            return
        await self._clean()
        was_read = await self._store.use(
            _reader(call, principal),
            self._id(target, pinned.manifest.definition),
            now=self._clock(),
            idle_s=self._settings.idle_s,
        )
        if not was_read:
            raise DescriptionRequired(
                "the description of this tool has to be read first", told=briefs.required(name)
            )

    def _id(self, target: Target, definition: Document) -> str:
        return description_id(target, definition, self.guidance(target))

    async def _clean(self) -> None:
        """Forget what was not used for too long, every now and then."""
        now = self._clock()
        if now - self._cleaned >= self._settings.cleanup_s:
            self._cleaned = now
            await self._store.forget(before=now - self._settings.idle_s)


def _reader(call: Call, principal: Principal) -> Reader:
    # The session's id is sealed for its principal, and 2026-07-28 has none. That nobody else's
    # reading counts does not hang on it: the principal is part of what names the reader.
    return Reader(principal=principal.key, person=principal.person, session=call.session or "")


def _as_client(call: Call) -> Call:
    """Return `call` as one that asks for a list: under a server's name it is in that one's words."""
    profile = Profile.MODERN if is_stateless(call.revision) else Profile.LEGACY
    return replace(call, server=OWN, profile=profile, origin=OriginKind.DIRECT)
