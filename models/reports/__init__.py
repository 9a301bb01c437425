"""Read reports from the store: alert traces, incident timelines, dead letters, the backlog."""
