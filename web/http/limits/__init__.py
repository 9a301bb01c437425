"""What bounds the work for requests: what is too large, and how much runs at the same time."""
