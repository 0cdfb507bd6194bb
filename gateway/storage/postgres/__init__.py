"""What is shared by replicas, in PostgreSQL: the only room that knows psycopg, which is an extra.

No setting leads here yet: a gateway keeps everything in SQLite.
"""
