"""The gateway as an OAuth client: people's connections to upstream servers, kept for them."""

from gateway.broker.broker import CONNECT_PATH, Broker
from gateway.broker.challenge import scopes_in
from gateway.broker.connect import Connected, Connecting, Prospect
from gateway.broker.exchange import Signer
from gateway.broker.registration import CALLBACK_PATH, DOCUMENT_PATH, client_metadata
from gateway.broker.settings import Credential, PersonalConnection, TokenExchange

__all__ = [
    "CALLBACK_PATH",
    "CONNECT_PATH",
    "DOCUMENT_PATH",
    "Broker",
    "Connected",
    "Connecting",
    "Credential",
    "PersonalConnection",
    "Prospect",
    "Signer",
    "TokenExchange",
    "client_metadata",
    "scopes_in",
]
