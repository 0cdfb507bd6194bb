"""What a hostile caller can take of the machine: memory, and turns of the event loop."""
