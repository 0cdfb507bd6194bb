"""Several gateways that share one PostgreSQL, and nginx in front of them, as it is shipped."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gateway.storage.kek import new_key
from tests import postgres
from tests.demo.stage import Together
from tests.running import running_gateway
from tests.servers import process
from tests.servers.process import ROOT, free_port

NGINX = ROOT / "deploy" / "nginx"
PUBLIC_PORTS = 8091
"""Where the first gateway's own listener is, if ports are given; each other one's is the next."""

_CONFIGURATION = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;

events {{
    worker_connections 1024;
}}

http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    log_format carried '$upstream_addr "$request_method $uri" $status';
    access_log {folder}/carried.log carried;

{upstream}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 4m;
{location}
    }}
}}
"""


@contextmanager
def database() -> Iterator[str]:
    """Run a PostgreSQL that keeps its word; yield the address of an empty database in it.

    It is in a folder of its own, which goes with it.

    Raises:
        RuntimeError: There is none to run, or it does not start.

    """
    if not postgres.is_installed():
        raise RuntimeError(postgres.ABSENT)
    with tempfile.TemporaryDirectory(prefix="douane-postgres-") as folder, ExitStack() as stack:
        try:
            server = stack.enter_context(postgres.running(Path(folder), {}))
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"PostgreSQL does not start: {error}") from error
        yield server.fresh(template="template0")


@contextmanager
def together(
    folder: Path,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    number: int,
    address: str,
    policies: Path,
    ports: tuple[int, int] | None = None,
    **settings: Any,
) -> Iterator[Together]:
    """Run that many gateways over the database at `address`, each in a folder of its own.

    With `ports`, nginx listens at the first, and admin listeners begin at the second. What an earlier
    run has left in `folder` is forgotten, as its database is.

    Raises:
        RuntimeError: nginx is not installed, or a gateway does not become ready.

    """
    if process.NGINX is None:
        raise RuntimeError("nginx is not installed: apt-get install nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    _forgotten(folder)
    port = free_port() if ports is None else ports[0]
    shared = {"public_url": f"http://127.0.0.1:{port}", **_secrets(folder, address), **settings}
    with ExitStack() as stack:
        gateways = []
        for place in range(number):
            own = None if ports is None else (PUBLIC_PORTS + place, ports[1] + place)
            one = stack.enter_context(
                running_gateway(
                    folder / f"gateway-{place + 1}",
                    servers,
                    policies=policies,
                    ports=own,
                    trusted_proxies=["127.0.0.1"],
                    **shared,
                )
            )
            (one.folder / "pid").write_text(f"{one.process.pid}\n")
            gateways.append(one)
        configuration = configured(folder, port, [one.url for one in gateways])
        stack.enter_context(process.nginx(folder, configuration, port=port))
        first = gateways[0]
        (folder / "douane.yaml").symlink_to(first.config)
        yield Together(
            folder=folder,
            config=first.config,
            url=shared["public_url"],
            admin_url=first.admin_url,
            process=first.process,
            gateways=tuple(gateways),
        )


def configured(folder: Path, port: int, urls: Sequence[str]) -> str:
    """Return a configuration of nginx whose parts are those that are shipped."""
    upstream = (NGINX / "replicas.conf").read_text()
    (options,) = set(re.findall(r"(?m)^    server \S+( .*)?;\n", upstream))
    listed = "".join(f"    server {url.removeprefix('http://')}{options};\n" for url in urls)
    upstream = re.sub(r"(?m)(^    server .*\n)+", listed, upstream)
    located = re.search(
        r"(?ms)^    location / \{\n.*?^    \}\n", (NGINX / "douane.conf").read_text()
    )
    if located is None:
        raise RuntimeError("deploy/nginx/douane.conf has no location")
    # Where it is shipped for, the port is that of https, and no part of the name.
    location = located[0].replace("Host $host;", "Host $http_host;")
    return _CONFIGURATION.format(folder=folder, port=port, upstream=upstream, location=location)


def _forgotten(folder: Path) -> None:
    for data in folder.glob("gateway-*/data"):
        shutil.rmtree(data)
    for left in (*folder.glob("agent-*.json"), folder / "douane.yaml", folder / "carried.log"):
        left.unlink(missing_ok=True)


def _secrets(folder: Path, address: str) -> dict[str, Any]:
    """Write what all of them know, and return the keys of a configuration that lead there."""
    places = {"database": address, "kek": new_key()}
    for name, text in places.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    return {
        "storage": {"kind": "postgres", "url": f"file:{folder / 'database'}"},
        "auth": {"key_encryption_key": f"file:{folder / 'kek'}"},
    }
