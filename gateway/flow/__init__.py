"""Where the data of a call comes from, and where it would go."""
