"""The vocabulary of decisions: enums, facts and effects as plain frozen values."""
