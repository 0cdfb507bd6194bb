"""Programs that call tools: their engine, its jail, and the typed interface that they see."""
