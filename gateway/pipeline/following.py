"""Resources that a message of the stateless revision follows: each is a call, as in the older ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from gateway.domain.calls import Call, CallId
from gateway.domain.tools import OWN, Profile
from gateway.errors import ProtocolError
from gateway.wire.extensions import with_params
from gateway.wire.operations import LISTEN, SUBSCRIBE, UNSUBSCRIBE, followed

_WANTED: Final = "notifications"
_FOLLOWED: Final = "resourceSubscriptions"


def follows_of(call: Call, new_id: Callable[[], str]) -> Iterator[Call]:
    """Yield a call for each resource of its server that `call`, a `LISTEN`, follows, or follows no more.

    They are in the words of the older revisions, which have a message for each, so that they are decided
    on alike. None of them is sent: they go out as `call`.
    """
    message = call.message
    if call.profile is not Profile.MODERN or call.server == OWN:
        return
    try:
        uris = followed(call)
    except ProtocolError:
        return  # it is refused as it is
    one = replace(message, method=UNSUBSCRIBE if call.withdraws else SUBSCRIBE)
    meta = {name: inner for name, inner in message.params.items() if name == "_meta"}
    for uri in uris:
        yield replace(
            call,
            id=CallId(new_id()),
            parent=call.parent or call.id,
            message=with_params(one, {**meta, "uri": uri}),
        )


def without_followed(call: Call) -> Call:
    """Return `call` without what it follows, which is decided on by itself; itself, if it follows nothing."""
    message = call.message
    if message.method != LISTEN or not followed(call):
        return call
    wanted = {name: inner for name, inner in message.params[_WANTED].items() if name != _FOLLOWED}
    return replace(call, message=with_params(message, {**message.params, _WANTED: wanted}))
