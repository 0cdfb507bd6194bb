"""The section `console` of `douane.yaml`: the desk, where a security team works in a browser."""

from pydantic import ValidationInfo, field_validator

from gateway.config.section import Section
from gateway.config.values import Address, ListenAddress, PublicOrigin


class Console(Section):
    enabled: bool = True
    """Whether there is a desk, under `/desk` of the public listener or of its own."""
    read_only: bool = False
    """Whether people only look there: the command line and the API change things as before."""
    listen: ListenAddress | None = None
    """A listener of its own; `None`: the public one."""
    url: PublicOrigin | None = None
    """The origin that browsers know that listener by; `None`: the one that it listens on."""

    @field_validator("url")
    @classmethod
    def _of_a_listener(cls, url: str | None, info: ValidationInfo) -> str | None:
        listen: Address | None = info.data.get("listen")
        if url is not None and "listen" in info.data and listen is None:
            raise ValueError("goes with `console.listen`; without one the desk is at `public_url`")
        return url
