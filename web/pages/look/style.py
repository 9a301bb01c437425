"""The style of all pages as a text, for pages that load nothing."""

from functools import lru_cache
from importlib.resources import files

from markupsafe import Markup


@lru_cache(maxsize=1)
def read_style() -> Markup:
    """Return the style file. Its text is ours, so it is no text of others that has to be escaped."""
    return Markup(files("web.pages").joinpath("static/tocsin.css").read_text())  # noqa: S704
