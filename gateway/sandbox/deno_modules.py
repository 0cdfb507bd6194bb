"""Modules that come with Deno and are taken away from programs (pure)."""

import json
from typing import Final
from urllib.parse import quote

_NAMES: Final = (
    "_http_agent _http_common _http_outgoing _http_server _stream_duplex _stream_passthrough "
    "_stream_readable _stream_transform _stream_writable _tls_common _tls_wrap assert "
    "assert/strict async_hooks buffer child_process cluster console constants crypto dgram "
    "diagnostics_channel dns dns/promises domain events fs fs/promises http http2 https "
    "inspector inspector/promises module net os path path/posix path/win32 perf_hooks process "
    "punycode querystring readline readline/promises repl sea sqlite stream stream/consumers "
    "stream/promises stream/web string_decoder sys test test/reporters timers timers/promises "
    "tls trace_events tty url util util/types v8 vm wasi worker_threads zlib"
)
NODE_MODULES: Final = tuple(_NAMES.split(" "))

_GONE: Final = "gone:module"
"""Of a scheme that nothing loads."""


def import_map() -> str:
    """Return an import map, as a URL, by which none of them is found. None had a permission."""
    names = [name for module in NODE_MODULES for name in (module, f"node:{module}")]
    text = json.dumps({"imports": dict.fromkeys(names, _GONE)}, separators=(",", ":"))
    return f"data:application/json,{quote(text)}"
