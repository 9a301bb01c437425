"""The pages that signed links open."""
