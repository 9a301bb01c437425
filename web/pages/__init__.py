"""The pages that signed links open, and those that a browser gets at / and for a refusal."""
