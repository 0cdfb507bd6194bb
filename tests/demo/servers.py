"""The two example servers of `make run` by themselves, for a gateway of your own; Ctrl-C ends them."""

import signal
import sys
import threading

from tests.demo.run import FOLDER, SERVER_PORTS
from tests.servers import process


def main() -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit status."""
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    everything, notes = SERVER_PORTS
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with process.everything(FOLDER, port=everything), process.notes(FOLDER, port=notes):
            done.wait()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
