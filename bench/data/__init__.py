"""The rows that a measurement inserts before it starts."""
