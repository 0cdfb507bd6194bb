"""Many gateways over one PostgreSQL: what faults do to their record, and what one more of them carries."""
