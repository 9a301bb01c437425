"""Begin and end accounts, members, invitations and signed links."""
