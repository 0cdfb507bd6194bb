"""What a jailed server with a way out begins as: it hands the way out to the gateway, and is gone.

Run as a program by the gateway's own interpreter, inside the jail: it opens a listening socket on
the jail's loopback, sends it to the gateway over the socket whose number it is given, and becomes
the server. Whoever connects in there is from then on accepted out here, and nothing of it is left.
"""

import os
import signal
import socket
import sys
from typing import Final

PORT: Final = 3128
"""On the loopback of each jail, which is its own."""


def main() -> None:
    """Hand out the listening socket, then execute the words after its number."""
    number, *words = sys.argv[1:]
    with (
        socket.socket(fileno=int(number)) as gateway,
        socket.create_server(("127.0.0.1", PORT)) as listener,
    ):
        socket.send_fds(gateway, [b"\0"], [listener.fileno()])
    # The interpreter ignores these, and a program that is executed goes on ignoring them.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(words[0], words)  # noqa: S606 - the server that the operator has configured


if __name__ == "__main__":
    main()
