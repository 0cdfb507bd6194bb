"""All that a gateway keeps, moved from one place to another: the same steps in both directions."""
