"""Access to SQLite and PostgreSQL."""
