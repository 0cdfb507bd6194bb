"""MCP on the wire, for every family of revisions: bytes in, values out, and back again."""
