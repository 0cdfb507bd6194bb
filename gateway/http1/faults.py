"""What can become of an exchange."""


class HttpFault(Exception):
    """A peer that is slow, gone or not speaking HTTP."""


class BadMessage(HttpFault):
    """The peer sent what is no HTTP, or what two readers could read in two ways.

    Its text says what is wrong and quotes nothing of the peer's.
    """


class ConnectFailed(HttpFault):
    """Nobody answers there, or not by the name that was asked for."""


class Disconnected(HttpFault):
    """The connection ended before the message did."""


class ConnectTimedOut(HttpFault, TimeoutError):
    """There was no connection in time."""


class NoPlace(HttpFault):
    """So many connections were in use for so long: the peer was not asked, and is none the worse."""


class Silent(HttpFault, TimeoutError):
    """The peer said nothing for too long."""


class Overdue(HttpFault, TimeoutError):
    """The whole answer took too long."""


LATE = Silent | Overdue
"""The request had gone out, and the peer may still be at it."""
