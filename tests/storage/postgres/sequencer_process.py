"""One who stands ready to order the log, until it is killed.

python -m tests.storage.postgres.sequencer_process ADDRESS NAME
"""

import sys
import time

from gateway.storage.postgres.sequencer import Pace, Sequencer
from tests.storage.postgres.shared import KEY

_PACE = Pace(step=0.01, sign=0.05, keep=0.1, lease=1.0, turn=0.5)


def main(address: str, name: str) -> None:
    Sequencer(address, name, key=KEY, pace=_PACE).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
