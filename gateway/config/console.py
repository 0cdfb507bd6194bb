"""The section `console` of `douane.yaml`: the desk, where a security team works in a browser."""

from gateway.config.section import Section


class Console(Section):
    enabled: bool = True
    """Whether there is a desk, under `/desk` of the public listener."""
    read_only: bool = False
    """Whether people only look there: the command line and the API change things as before."""
