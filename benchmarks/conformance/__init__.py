"""The public MCP conformance suite, run at a server directly and through the gateway."""
