"""Accept alerts: commit first, then answer."""
