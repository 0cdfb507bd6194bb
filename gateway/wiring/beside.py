"""What is looked up without taking part, also while gateways run."""

from gateway.config import Config
from gateway.storage.beside import SqliteBeside
from gateway.wiring.identity import unlocked
from gateway.wiring.replicas import beside_others
from gateway.wiring.stores import Beside


def beside(config: Config) -> Beside:
    """Return what looks where a gateway of `config` keeps everything.

    Raises:
        ConfigError: What that takes is not installed.

    """
    if config.storage.kind == "sqlite":
        return SqliteBeside(config.data_dir)
    return beside_others(config, lambda stores: unlocked(config, stores))
