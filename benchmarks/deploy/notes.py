"""An upstream server of the trials: over standard input and output, or `--http PORT`."""

import sys

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("notes")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read_note(title: str) -> str:
    """Return the note of this title."""
    return f"the note {title}"


def main() -> None:
    if sys.argv[1:2] == ["--http"]:
        port = int(sys.argv[2])
        server.run("streamable-http", host="0.0.0.0", port=port)  # its container's own network
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
