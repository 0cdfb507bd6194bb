"""What a crash takes: the gateway is killed under load, and its disk loses power."""
