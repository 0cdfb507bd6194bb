"""People's connections to upstream servers, wired to the stores."""

import os

from gateway.broker import Broker, Credential, PersonalConnection, TokenExchange
from gateway.config import Config, Server
from gateway.oauth.held_keys import HeldKeys
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity


def broker_of(config: Config, identity: Identity) -> Broker:
    """Return what keeps people's connections to the servers of `config`."""
    stores = identity.store.identity
    found = {
        name: credential
        for name, server in config.servers.items()
        if (credential := _credential(name, server)) is not None
    }
    return Broker(
        found,
        connections=stores.connections,
        transactions=stores.browsers,
        users=identity.users,
        sealer=identity.vault,
        fetcher=identity.fetcher,
        signer=identity,
        audit=identity.store.audit,
        clock=now,
        random=os.urandom,
        new_id=new_id,
        public_url=config.public_url,
        keys=HeldKeys(),
    )


def _credential(name: str, server: Server) -> Credential | None:
    """Return what a server wants of the person behind a call, if it does."""
    said = server.credential
    secret = said.client_secret
    revealed = "" if secret is None else secret.resolve(os.environ).reveal()
    match said.kind:
        case "oauth":
            return PersonalConnection(
                server=name,
                url=str(server.url),
                scopes=said.scopes,
                issuer="" if said.issuer is None else str(said.issuer),
                client_id=said.client_id or "",
                client_secret=revealed,
                sends_resource=said.resource,
                is_bound=said.dpop,
            )
        case "exchange":
            return TokenExchange(
                server=name,
                url=str(server.url),
                token_url=str(said.token_url),
                client_id=said.client_id or "",
                client_secret=revealed,
                audience=said.audience or "",
                scopes=said.scopes,
                sends_resource=said.resource,
            )
        case _:
            return None
