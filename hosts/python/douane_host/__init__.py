"""Declares the user's task to a Douane gateway, from any MCP client that speaks HTTP.

One argument where a client is made, `httpx_client_factory=http_client` or `declaring(client)`, and
one line where a person's request is carried out:

    async with task("Mail the minutes to bob@client.example"):
        ...
"""

from douane_host.clients import declaring, http_client
from douane_host.tasks import Task, conversation, task

__all__ = ["Task", "conversation", "declaring", "http_client", "task"]
