"""Who may do what: people, clients, grants and sealed secrets, in a database of their own."""
