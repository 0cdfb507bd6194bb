"""The authorization server, and the check of its tokens at every endpoint."""
