"""Create accounts, members and teams, remove members, and hand an account over."""
