"""One process of a client that is many: they share a file of tokens, and no lock.

It does what clients in the field do: it trusts what it read, writes what it got, and deletes what
all of them share when it is told that a token is not valid.
"""

import http.client
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode


class Process:
    def __init__(self, port: int, file: Path) -> None:
        self._port = port
        self._file = file
        self._held = ""

    def do(self, what: str, now: float) -> str:
        kept = self._kept()
        if what == "again":
            # What it read some time ago, whatever became of it meanwhile.
            return self._refreshed(self._held, now, forgives=True)
        if kept is None:
            return "signed out"
        if what == "read":
            self._held = kept["refresh"]
            return "read"
        if what == "need" and kept["until"] > now:
            return "fresh"
        if what == "die":
            self._asked(kept["refresh"])
            os._exit(9)
        return self._refreshed(kept["refresh"], now)

    def _refreshed(self, token: str, now: float, *, forgives: bool = False) -> str:
        answer = self._asked(token).getresponse()
        body = json.loads(answer.read())
        kept = self._kept()
        if answer.status != 200:
            if forgives and kept is not None and kept["refresh"] != token:
                return self._refreshed(kept["refresh"], now)
            self._file.unlink(missing_ok=True)
            return f"signed out: {body['error']}"
        refresh = body.get("refresh_token") or (kept or {"refresh": token})["refresh"]
        written = self._file.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps({"until": now + body["expires_in"], "refresh": refresh}))
        written.replace(self._file)
        return "refreshed" if "refresh_token" in body else "let in"

    def _asked(self, token: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": "app"}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/oauth/token", urlencode(form), headers)
        return connection

    def _kept(self) -> dict[str, Any] | None:
        try:
            kept: dict[str, Any] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return None
        return kept


def main(port: int, file: Path) -> None:
    process = Process(port, file)
    for line in sys.stdin:
        what, now = line.split()
        sys.stdout.write(process.do(what, float(now)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
