"""The policy engines: Rego compiled by OPA and evaluated here, or an OPA server that is asked."""
