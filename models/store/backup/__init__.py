"""Backups: one file with all rows of a database at one moment, for both stores."""
