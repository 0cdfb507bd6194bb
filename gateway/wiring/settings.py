"""The configuration in the words of the rooms: each room has its own settings, and knows no file."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.builtin.descriptions import Mode, Settings
from gateway.builtin.shelf import ClientShelving, Defer, Shelving
from gateway.config import Config
from gateway.domain.roster import Roster
from gateway.domain.tools import Kind, Target, UpstreamId
from gateway.policy.agreement import CENTRAL
from gateway.policy.settings import DecisionPoint, EngineKind, OpaServer, PolicySettings


def policy_settings(config: Config) -> PolicySettings:
    """Return what the policy room needs of the configuration."""
    policy, bundle = config.policy, config.policy.bundle
    server = None
    if policy.opa is not None and policy.opa.url is not None:
        token = (
            policy.opa.token.resolve(os.environ).reveal() if policy.opa.token is not None else ""
        )
        server = OpaServer(url=policy.opa.url, token=token, ca_file=policy.opa.ca)
    return PolicySettings(
        path=str(policy.path),
        engine=EngineKind(policy.engine),
        server=server,
        verification_key=bundle.verification_key if bundle else None,
        signing_algorithm=bundle.algorithm if bundle else "RS256",
        deadline=policy.deadline,
        poll=bundle.poll if bundle else 60.0,
    )


def known_as(config: Config, roster: Roster | None) -> Callable[[str, str], str]:
    """Return what says by which name gateways know a policy, for a call of a server by this configuration.

    A policy server's revisions are its own: whichever comes back from it is in force. `roster` is
    where gateways have what is registered alike: what is not as it says has no name.
    """
    is_central = policy_settings(config).is_central

    def name(digest: str, server: str) -> str:
        policy = CENTRAL if is_central else digest
        if roster is None:
            return policy
        taken_up = config.registered_as.get(server)
        gone = taken_up is not None and roster.servers.get(server) != taken_up
        return "" if gone else roster.beside(policy)

    return name


def decision_point(config: Config) -> DecisionPoint | None:
    """Return who is asked beside policy, if anybody is."""
    section = config.policy.authzen
    if section is None:
        return None
    token = section.token.resolve(os.environ).reveal() if section.token is not None else ""
    return DecisionPoint(
        url=section.url,
        token=token,
        ca_file=section.ca,
        deadline=section.deadline,
        subject=section.subject,
        send=frozenset(section.send),
    )


def policy_data(config: Config) -> Mapping[str, Any]:
    """Return `data.douane.config`: what the configuration says of roles and of what is ours."""
    tenant = config.tenant.value
    return {
        "roles": {name: {"groups": sorted(role.groups)} for name, role in config.roles},
        "tenant": {
            "self": sorted(tenant.self_),
            "domains": sorted(tenant.domains),
            "members": sorted(tenant.members),
            "channels": sorted(tenant.channels),
        },
        # What all gateways agree on beside their policy makes it no other one.
        "servers": sorted(
            config.servers
            if config.storage.kind == "sqlite"
            else config.servers.keys() - config.registered
        ),
    }


def always_on(config: Config) -> frozenset[UpstreamId]:
    """Return the servers that are shown at `/mcp` whatever a client chooses."""
    return frozenset(UpstreamId(name) for name, one in config.servers.items() if one.always_on)


def portable(config: Config) -> Mapping[UpstreamId, Sequence[str]]:
    """Return by which hosts the schemas of a server's tools are to be taken."""
    return {
        UpstreamId(name): one.portable_schemas
        for name, one in config.servers.items()
        if one.portable_schemas
    }


def described(config: Config) -> Settings:
    """Return for whom lists at `/mcp` are brief, and what is said of tools beside their definitions."""
    section = config.discovery
    return Settings(
        mode=Mode(section.descriptions.mode),
        clients={
            name: Mode(own.descriptions)
            for name, own in section.clients.items()
            if own.descriptions is not None
        },
        core=frozenset(section.core),
        guidance={
            Target(server=UpstreamId(name), kind=Kind.TOOL, name=tool): guidance
            for name, server in config.servers.items()
            for tool, guidance in server.guidance.items()
        },
        idle_s=section.descriptions.idle,
        cleanup_s=section.descriptions.cleanup,
    )


def shelving(config: Config) -> Shelving:
    """Return which tools are listed at `/mcp`, and to which clients."""
    section = config.discovery
    return Shelving(
        defer=Defer(section.defer),
        window=section.window,
        share=section.share,
        core=section.core,
        clients={
            name: ClientShelving(
                defer=None if own.defer is None else Defer(own.defer), window=own.window
            )
            for name, own in section.clients.items()
        },
    )
