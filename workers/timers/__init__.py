"""Fire due timers, and keep stored timers equal to expected timers."""
