"""How quiet the deviations are in an ordinary month, and whether incidents are found."""
