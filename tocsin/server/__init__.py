"""Run and supervise the processes."""
