"""What hosts get at the endpoint in front of all servers: how much of it, how fast, and from how many."""
