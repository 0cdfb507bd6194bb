"""The tools that somebody may know of, by their names in front of all servers, where no call is yet."""

from collections.abc import Mapping
from typing import Final

from gateway.builtin.offers import Offers
from gateway.domain.calls import AGGREGATE, Call, CallId, Form, Message, OriginKind
from gateway.domain.identity import Principal
from gateway.domain.tools import OWN, Kind, Profile, UpstreamId
from gateway.errors import PolicyUnavailable
from gateway.wire import rev_handshake, rev_stateless

_REVISIONS: Final = {
    Profile.LEGACY: rev_handshake.REVISIONS[-1],
    Profile.MODERN: rev_stateless.REVISIONS[-1],
}


class NamedTools:
    """Says what programs of a host could call at the endpoint in front of all servers."""

    def __init__(self) -> None:
        """Know of nothing until it is connected."""
        self._offers: Offers | None = None

    def connect(self, offers: Offers) -> None:
        """Ask `offers` from now on."""
        self._offers = offers

    async def of(
        self, principal: Principal, source_ip: str
    ) -> Mapping[str, tuple[UpstreamId, str]]:
        """Return server and tool of each name that a program of the principal's may know of.

        Whatever family of revisions the program will speak.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        if self._offers is None:
            raise PolicyUnavailable("try again later", detail="the gateway is still starting")
        named = {}
        for profile in Profile:
            look = _look(profile, source_ip)
            for offer in await self._offers.of(look, principal, Kind.TOOL):
                named[offer.name] = (offer.target.server, offer.target.name)
        return named


def _look(profile: Profile, source_ip: str) -> Call:
    """Return the question of a program that lists its tools: policy judges it like one."""
    message = Message(form=Form.REQUEST, method="tools/list", id=0, params={}, body=b"")
    return Call(
        id=CallId(""),
        endpoint=AGGREGATE,
        server=OWN,
        message=message,
        revision=_REVISIONS[profile],
        profile=profile,
        headers=(),
        credential=None,
        session=None,
        source_ip=source_ip,
        origin=OriginKind.HOST_SANDBOX,
    )
