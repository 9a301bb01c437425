"""Commands about accounts: people, tokens, applications, stakeholders, and who is on call."""
