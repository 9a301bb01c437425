"""An account, its members, and each person's contacts and rules."""
