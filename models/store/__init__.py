"""How Tocsin talks to SQLite and PostgreSQL."""
