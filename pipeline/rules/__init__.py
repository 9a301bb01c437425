"""Alert rules: which match, and what their actions change."""
