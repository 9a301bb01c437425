"""The pages of signed-in people: incidents, why, on call, mine, figures."""
