"""Stands in for an interpreter that is started: one is forked from `tests.loaded` in its place.

It passes on its input and outputs, ends with what was forked, and loads next to nothing.

    python forked_worker.py PLACE [ARGUMENTS OF AN INTERPRETER]
"""

import json
import os
import socket
import sys

place, *arguments = sys.argv[1:]
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
    try:
        asking.connect(place)
        socket.send_fds(asking, [json.dumps(dict(os.environ)).encode()], [0, 1, 2])
        is_forked = asking.recv(1) == b"1"
    except OSError:
        is_forked = False
    if is_forked:
        asking.recv(1)
    else:
        os.execv(sys.executable, [sys.executable, *arguments])
