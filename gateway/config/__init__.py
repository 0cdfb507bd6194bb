"""The configuration file as types: `douane.yaml` in, a frozen `Config` or every problem out."""

from gateway.config.advice import warnings
from gateway.config.credential import Credential
from gateway.config.model import Config, Server
from gateway.config.reading import load, parse, schema
from gateway.config.template import TEMPLATE
from gateway.config.values import Address, Secret, SecretRef

__all__ = [
    "TEMPLATE",
    "Address",
    "Config",
    "Credential",
    "Secret",
    "SecretRef",
    "Server",
    "load",
    "parse",
    "schema",
    "warnings",
]
