"""Figures of the record: how fast, how safe, how it finds what was changed."""
