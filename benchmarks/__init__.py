"""Programs that measure the gateway; each writes one report of figures."""
