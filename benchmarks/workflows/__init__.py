"""A model at work: whether it finds and calls the tools that a task needs, given only the endpoint."""
