"""The pages with which people sign in, and those with which they manage how they sign in."""
