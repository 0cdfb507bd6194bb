"""What came back for a permit, as far as whoever sent it may say it."""

from gateway.domain.calls import Permit
from gateway.domain.nodes import weight
from gateway.domain.tools import OWN
from gateway.turns import finished
from gateway.wire.in_our_name import hear
from gateway.wire.jsontext import WireLimits
from gateway.wire.server_message import ServerMessage, read_server_message


async def heard(permit: Permit, data: bytes, limits: WireLimits) -> ServerMessage:
    """Return the message in `data`; of a server's, without what it says in our name.

    Raises:
        UpstreamFailed: It is no message, or one that two readers would read as two.

    """
    read = read_server_message if permit.call.server == OWN else hear
    return await finished(permit.principal.person, weight(data), read, data, limits)
