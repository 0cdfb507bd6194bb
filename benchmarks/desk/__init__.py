"""How long the desk's pages take."""
