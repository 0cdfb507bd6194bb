"""The gateway's own server: one endpoint in front of every server that a principal may use."""
