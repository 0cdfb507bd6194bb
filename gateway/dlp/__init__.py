"""Sensitive data in what is sent and answered: found by form and check digits, masked or given a token."""
