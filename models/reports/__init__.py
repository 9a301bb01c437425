"""Answer what people ask the store: alert traces, incident timelines, dead letters, the backlog."""
