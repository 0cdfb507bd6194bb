"""What is allowed in a configuration and still deserves a second look."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from gateway.config.model import Config, Server
from gateway.config.planes import AuthzenPlane, InterceptorHostSection
from gateway.config.values import is_loopback
from gateway.domain.plane_reach import missing
from gateway.domain.planes import PlaneKind


def warnings(config: Config) -> list[str]:
    """Return one sentence for everything in `config` that is risky, each with what to do."""
    found = list(_listeners(config))
    if not config.servers:
        found.append("servers: there is none; add the first one under `servers`")
    for name, server in config.servers.items():
        found += _server(name, server)
    for name, plane in config.planes.authzen.items():
        found += _plane(f"planes.authzen.{name}", plane)
    for name, host in config.planes.experimental_interceptors.items():
        found += _host(f"planes.experimental_interceptors.{name}", host)
    for kind, name, section in config.planes.every:
        if not isinstance(section, AuthzenPlane):
            found += _asking_by_grpc(f"planes.{kind}.{name}", PlaneKind(kind))
    found += _servers_of_people(config)
    found += _core(config)
    found += _told(config)
    return found


def _told(config: Config) -> Iterator[str]:
    if config.servers and not any(
        "approval" in one.events for one in config.alerts.webhooks.values()
    ):
        yield (
            "alerts.webhooks: calls can wait for a person, and nobody is told of it; name a webhook "
            "with `events: [approval]`, also one of Slack or Teams"
        )


def _listeners(config: Config) -> Iterator[str]:
    if not config.listen.is_loopback and config.public_url.startswith("http:"):
        yield (
            f"listen: {config.listen} is open to other machines while public_url is plain http; "
            "tokens would cross the network in the clear: use https, or listen on 127.0.0.1"
        )
    if not config.admin_listen.is_loopback:
        yield (
            f"admin_listen: {config.admin_listen} is open to other machines; "
            "listen on 127.0.0.1 and let a proxy decide who may come"
        )
    if config.tls is not None and config.public_url.startswith("http:"):
        yield "tls: public_url begins with http:, so clients will not speak TLS; make it https"
    if config.tls is None and config.public_url.startswith("https:") and not config.trusted_proxies:
        yield (
            "trusted_proxies: public_url is https and the gateway speaks no TLS itself; name the "
            "proxy in front of it, so that the log shows the callers' addresses, or set `tls`"
        )


def _server(name: str, server: Server) -> Iterator[str]:
    if server.command and server.jail == "none":
        yield (
            f"servers.{name}.jail: it runs as the gateway's own user, who can read every secret; "
            "remove `jail: none`"
        )
    parts = urlsplit(server.url or "")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield f"servers.{name}.url: plain http to another machine; use https"
    if not server.labelled:
        yield (
            f"servers.{name}.tools: no tool is labelled, so each is judged by the strictest "
            f"reading; `douane servers suggest-labels {name}` proposes labels"
        )


def _plane(key: str, plane: AuthzenPlane) -> Iterator[str]:
    yield (
        f"{key}: nobody here sees whether it asks before it sends; it leaves nothing out of a list "
        "and judges no stream, so its lists pass whole or not at all: see docs/planes.md"
    )
    if plane.reports == "none":
        yield (
            f"{key}.reports: it reports no result, so its first call makes a run untrusted and "
            "private; let it report, if it can"
        )
    elif not plane.duties:
        yield _promises_nothing(key, "gives out the result that it is answered with")


def _host(key: str, host: InterceptorHostSection) -> Iterator[str]:
    yield (
        f"{key}: what it speaks is a draft and may change with any version; nobody here sees whether "
        "it invokes an interceptor, and it looks at no list: see docs/planes.md"
    )
    if not host.duties:
        yield _promises_nothing(key, "invokes `douane/redact` too")


def _promises_nothing(key: str, promise: str) -> str:
    return (
        f"{key}.duties: it promises nothing, so a result that would have to be masked or cut is "
        f"refused whole; write `[replace_result]` if it {promise}"
    )


def _asking_by_grpc(key: str, kind: PlaneKind) -> Iterator[str]:
    yield (
        f"{key}: nobody here sees whether it fails open, or lets through what it asks nothing about; "
        "let it run what `douane plane config` prints"
    )
    if lacks := missing(kind):
        yield f"{key}: it does not hold that {'; that '.join(lacks)}: see docs/planes.md"


def _servers_of_people(config: Config) -> Iterator[str]:
    hosts = config.planes.experimental_interceptors.items()
    planes = [(kind, name, set(one.named)) for kind, name, one in config.planes.every]
    planes += [
        ("experimental_interceptors", name, set(one.servers.values())) for name, one in hosts
    ]
    for kind, name, servers in planes:
        for server in sorted(servers):
            if config.servers[server].credential.kind in {"oauth", "exchange"}:
                yield (
                    f"planes.{kind}.{name}.servers: {server} has a credential for each person, and what "
                    "it shows them is read with the one that they have here: a call of somebody who has "
                    "none is refused, whatever the plane itself would send; see docs/planes.md"
                )


def _core(config: Config) -> Iterator[str]:
    for name in config.discovery.core:
        if not any(name.startswith(f"{server}__") for server in config.servers):
            yield (
                f"discovery.core: {name} is a tool of no server that is configured; write "
                "`server__tool`, as `douane discovery core --suggest` does"
            )
