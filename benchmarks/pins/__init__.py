"""What pins and hints find: golden pairs, mutated tools, hostile tools, real releases."""
