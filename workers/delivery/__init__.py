"""Send outgoing messages and record each attempt."""
