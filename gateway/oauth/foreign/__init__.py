"""Authorization servers of others: their metadata, their keys, and the tokens that they issue."""
