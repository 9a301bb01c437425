"""Plain frozen values for decisions: enums, facts and effects."""
