"""What the clock starts at regular times."""
