"""Load rows as facts for decisions."""
