"""A scripted MCP server over standard input and output: what a call's name says, it does.

Run as a program; it needs nothing but Python, so it starts at once and works in every jail.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

MODERN = "2026-07-28"

LISTED = ("echo", "pid", "folder", "exit", "fork", "exchange", "look_up", "connect")

Given: TypeAlias = dict[str, Any]


def say(message: Given) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def result(id_: object, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    say({"id": id_, "result": {"content": [{"type": "text", "text": text}], "isError": False}})


def notify(method: str, **params: object) -> None:
    say({"method": method, "params": params})


def attempt(act: Any) -> str:
    try:
        return str(act())
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"


def connect(given: Given) -> str:
    host = given.get("host", "127.0.0.1")
    socket.create_connection((host, given["port"]), timeout=2).close()
    return "connected"


def exchange(given: Given) -> str:
    """Say `said` to a port of the loopback, and return all that is said back."""
    with socket.create_connection(("127.0.0.1", given["port"]), timeout=10) as connection:
        connection.sendall(given["said"].encode())
        with connection.makefile("rb") as answered:
            return answered.read().decode()


def send(given: Given) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"x", (given["host"], given["port"]))
    return "sent"


def environment(given: Given) -> object:
    return dict(os.environ)


def limits(given: Given) -> object:
    done = subprocess.run(
        ["prlimit", "--raw", "--noheadings", "--output", "RESOURCE,SOFT"],
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(line.split() for line in done.stdout.splitlines())


def namespace(given: Given) -> object:
    return subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False).returncode


def fork(given: Given) -> object:
    words = ["sleep", given["seconds"]]
    return subprocess.Popen(words, start_new_session=given["away"]).pid


def crowd(given: Given) -> object:
    """Start as many as are let, and say how many that is."""
    started = 0
    with suppress(OSError):
        while started < given["most"]:
            subprocess.Popen(["sleep", "600"])
            started += 1
    return started


def memory(given: Given) -> object:
    try:
        return len(bytearray(given["bytes"]))
    except MemoryError:
        return "MemoryError"


def logs(given: Given) -> object:
    notify("notifications/message", level="info", data="working")
    return "done"


def changed(given: Given) -> object:
    notify("notifications/tools/list_changed")
    return "done"


def ask(given: Given) -> object:
    say({"id": "q1", "method": "ping"})
    return json.loads(sys.stdin.readline())


def garbage(given: Given) -> object:
    print("this is no message at all")
    return "after garbage"


def complain(given: Given) -> object:
    print("secret-of-stderr " * 20_000, file=sys.stderr)
    return "done"


def flood(given: Given) -> object:
    for _ in range(int(given["times"])):
        notify("notifications/message", level="info", data="x" * 1000)
    return "done"


def stranger(given: Given) -> object:
    result("nobody-asked", "for somebody else")
    return "mine"


ANSWERING: dict[str, Callable[[Given], object]] = {
    "echo": lambda given: given,
    "pid": lambda given: os.getpid(),
    "environment": environment,
    "read": lambda given: attempt(Path(given["path"]).read_text),
    "write": lambda given: attempt(lambda: Path(given["path"]).write_text("written")),
    "folder": lambda given: attempt(lambda: sorted(p.name for p in Path(given["path"]).iterdir())),
    "connect": lambda given: attempt(lambda: connect(given)),
    "exchange": lambda given: attempt(lambda: exchange(given)),
    "look_up": lambda given: attempt(lambda: socket.getaddrinfo(given["host"], 443)),
    "send": lambda given: attempt(lambda: send(given)),
    "namespace": namespace,
    "limits": limits,
    "fork": fork,
    "crowd": crowd,
    "memory": memory,
    "log": logs,
    "changed": changed,
    "ask": ask,
    "garbage": garbage,
    "complain": complain,
    "flood": flood,
    "stranger": stranger,
}


def call(id_: object, name: str, given: Given, meta: Given) -> None:
    if name in ANSWERING:
        result(id_, ANSWERING[name](given))
        return
    match name:
        case "progress":
            for step in (1, 2):
                notify("notifications/progress", progressToken=meta["progressToken"], progress=step)
            result(id_, "done")
        case "twice":
            result(id_, "first")
            result(id_, "second")
        case "broken":
            print('{"jsonrpc":"2.0","id":1,"id":2,"result":{}}', flush=True)
        case "huge":
            print("x" * int(given["bytes"]), flush=True)
        case "exit":
            print('{"jsonrpc":"2.0","id":', end="", flush=True)
            os._exit(3)
        case "deaf":
            time.sleep(600)
        case _:  # nobody is answered
            with suppress(OSError):
                Path("unanswered").touch()


def heard(message: Given, *, modern: bool) -> None:
    id_, method = message.get("id"), message["method"]
    params = message.get("params", {})
    about = {"name": "local", "version": "1"}
    if method == "initialize":
        offered = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
        say({"id": id_, "result": {**offered, "serverInfo": about}})
    elif method == "server/discover" and "silent-about-discovery" in sys.argv:
        pass
    elif method == "server/discover" and modern:
        offered = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
        extra = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": about}}
        say({"id": id_, "result": {**offered, **extra}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in LISTED]
        say({"id": id_, "result": {"tools": tools, "resultType": "complete"}})
    elif method == "subscriptions/listen":
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": id_}}
        notify("notifications/subscriptions/acknowledged", **meta)
    elif method == "tools/call":
        meta = params.get("_meta", {})
        call(id_, params["name"], params.get("arguments", {}), meta)
    elif method == "notifications/cancelled":
        with Path("cancelled").open("a") as file:
            file.write(f"{params['requestId']}\n")
    elif id_ is not None:
        say({"id": id_, "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    how = sys.argv[1:]
    if "dies" in how:
        sys.exit(4)
    if "stubborn" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "notes-the-signal" in how:
        signal.signal(signal.SIGTERM, lambda *_: (Path("ended").write_text("TERM"), os._exit(0)))
    if "mute" in how:
        time.sleep(600)
    for line in sys.stdin:
        heard(json.loads(line), modern="modern" in how)
    if "stubborn" in how or "notes-the-signal" in how:
        time.sleep(600)
    if "tidy" in how:
        Path("ended").write_text("EOF")


if __name__ == "__main__":
    main()
