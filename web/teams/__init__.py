"""Teams and what they own."""
