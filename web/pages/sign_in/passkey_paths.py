"""What a page needs for the script of passkeys, and why browsers offer none."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from web.pages.base import build_url


@dataclass(frozen=True, slots=True)
class PasskeyPaths:
    """The paths that the script uses. `kind`: create or get. `next`: where the person goes afterwards."""

    kind: str
    options: str
    target: str
    next: str


def build_paths(kind: str, target: str, path: str = "") -> PasskeyPaths:
    return PasskeyPaths(kind, build_url(f"{target}options/"), build_url(target), path)


def find_obstacle(public_url: str) -> str:
    """Return why browsers offer no passkeys here; "": they do."""
    url = urlsplit(public_url)
    if url.scheme == "https" or url.hostname == "localhost":
        return ""
    return "Passkeys need https, or the host name localhost, in TOCSIN_PUBLIC_URL."
