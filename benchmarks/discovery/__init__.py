"""How well a search finds the tools that a request needs, how fast, and what it saves."""
