"""The jobs that the clock runs periodically."""
