"""The record on its way out: followers with durable cursors, and where they hand records to."""
