"""Sign people in to the pages, and end their sessions."""
