"""What all pages have in common: the bar, times as people read them, colours of levels."""
