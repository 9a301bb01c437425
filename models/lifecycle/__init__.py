"""Create and remove accounts, members, teams, invitations and signed links."""
