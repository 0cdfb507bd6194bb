"""What a call costs: the gateway beside no gateway, a plain proxy and an MCP proxy."""
