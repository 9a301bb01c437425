"""How the bodies of all sources are read: decoded, cleaned, and their fields found."""
