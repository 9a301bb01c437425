"""What pages show of stored rows, beyond what operations answer."""
