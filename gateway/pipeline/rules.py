"""What the configuration says of servers, of people and of what is ours."""

from collections.abc import Mapping
from dataclasses import field

from gateway.domain._value import value
from gateway.domain.labels import ServerRule, Tenant
from gateway.domain.tools import Pin, Profile, Target, UpstreamId


@value
class Rules:
    """What the configuration says of servers, of people and of what is ours."""

    servers: Mapping[UpstreamId, ServerRule]
    tenant: Tenant
    roles: Mapping[str, frozenset[str]]
    """Role -> groups whose members have it."""
    identities: Mapping[UpstreamId, str]
    """Where each server is, which is what its pins must have been approved for."""
    extensions: Mapping[UpstreamId, frozenset[str]]
    """The protocol extensions that are approved for each server."""
    per_person: frozenset[UpstreamId] = frozenset()
    """Servers that show themselves to connected people alone."""
    own: Mapping[tuple[Target, Profile], Pin] = field(default_factory=dict)
    """What stands for those of the gateway's own tools that are decided on like any other."""

    def roles_of(self, groups: frozenset[str]) -> tuple[str, ...]:
        """Return the roles that members of `groups` have."""
        return tuple(name for name, members in self.roles.items() if members & groups)
