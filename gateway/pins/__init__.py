"""Whether what an upstream shows is what a person approved."""
