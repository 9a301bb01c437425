"""What the sign-in pages know of an OpenID provider without its client, which takes long to import."""

# How far the clocks of the provider and of this host may differ.
CLOCK_SKEW_S = 60


class ProviderError(Exception):
    """The provider refused, could not be reached, or its answer failed a check. The text is ours."""
