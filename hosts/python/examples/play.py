"""Plays an example against a gateway: `python play.py EXAMPLE REQUEST...`.

The endpoint is `DOUANE_URL`, the token `DOUANE_TOKEN`.
"""

import asyncio
import importlib
import os
import sys


def main() -> None:
    """Carry out the requests."""
    name, *requests = sys.argv[1:]
    headers = {"Authorization": f"Bearer {os.environ['DOUANE_TOKEN']}"}
    asyncio.run(importlib.import_module(name).host(requests, os.environ["DOUANE_URL"], headers))


if __name__ == "__main__":
    main()
