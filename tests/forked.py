"""Have a module run as `python -m` does, by a process that the server of a run forks (`tests.forks`).

For commands that a shell or another program starts: this loads nothing of ours, and takes hundredths of
a second. It ends as what was forked does, and so does that if this is ended.

    python -IS tests/forked.py MODULE [ARGUMENT ...]
"""

import json
import os
import resource
import socket
import sys

_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
_ANSWER_BYTES = 64


def main(place: str, module: str, *arguments: str) -> int:
    """Return how it ended."""
    asked = {
        "module": module,
        "arguments": arguments,
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes as long to load as all else
        "environment": dict(os.environ),
        "limits": {which: resource.getrlimit(which) for which in _LIMITS},
    }
    told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, told:
        asking.connect(place)
        socket.send_fds(asking, [json.dumps(asked).encode()], [1, 2, theirs.fileno()])
        theirs.close()
        told.recv(_ANSWER_BYTES)  # its id
        status: int = json.loads(told.recv(_ANSWER_BYTES))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
