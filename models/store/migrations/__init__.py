"""Changes of the schema, in the order of their numbers."""
