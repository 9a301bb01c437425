"""The jobs that the clock process runs periodically."""
