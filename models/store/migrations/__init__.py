"""Migrations of the schema, applied in the order of their numbers."""
