"""An account, its members and what belongs to one person."""
