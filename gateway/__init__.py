"""Douane: a security gateway and policy enforcer for the Model Context Protocol."""
