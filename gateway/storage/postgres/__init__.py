"""What is shared by replicas, in PostgreSQL: the only room that knows psycopg, which is an extra.

`storage.kind: postgres` leads here (docs/replicas.md).
"""
