"""Alert rules: decide which rules match, and apply their actions."""
