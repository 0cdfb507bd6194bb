"""What is usual for a principal, a client and a tool, and what is not: pure rules."""
