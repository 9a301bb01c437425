"""Serve the style, the script and the icons of the pages. A name contains the digest of its file, so that
browsers can keep the file, and load a new version at once."""

import hashlib
from functools import lru_cache
from importlib.resources import files

import orjson
from flask import Response

from web.http.errors import NotFound
from web.http.prepared import PreparedAnswer, prepare, respond
from web.pages.base import build_url

FOLDER = "static"
TYPES = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "png": "image/png",
}
# A year: a file with another content has another name.
CACHE = "public, max-age=31536000, immutable"
ICONS = {"icon-180.png": "180x180", "icon-512.png": "512x512", "icon.svg": "any"}


@lru_cache(maxsize=1)
def _load() -> dict[str, PreparedAnswer]:
    """Return each file, by the name with its digest."""
    found = {}
    for file in files("web.pages").joinpath(FOLDER).iterdir():
        stem, _, ending = file.name.rpartition(".")
        if ending in TYPES:
            content = file.read_bytes()
            found[f"{stem}.{_digest(content)}.{ending}"] = prepare(TYPES[ending], content)
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@lru_cache(maxsize=16)
def get_path(name: str) -> str:
    """Return the path of a file, without the prefix of the installation."""
    stem, _, ending = name.rpartition(".")
    (found,) = (each for each in _load() if each.startswith(f"{stem}.") and each.endswith(f".{ending}"))
    return f"/static/{found}"


def show(name: str) -> Response:
    """Send a file of the pages."""
    found = _load().get(name)
    if found is None:
        raise NotFound
    return respond(found, CACHE)


def show_manifest() -> Response:
    """Send what a phone needs to install the pages as an application."""
    prefix = build_url("")
    manifest = {
        "name": "Tocsin",
        "short_name": "Tocsin",
        "description": "Incidents and on call",
        "start_url": f"{prefix}/",
        "scope": f"{prefix}/",
        "display": "standalone",
        "background_color": "#121212",
        "theme_color": "#121212",
        "icons": [
            {"src": prefix + get_path(name), "sizes": sizes, "type": TYPES[name.rpartition(".")[2]]}
            for name, sizes in ICONS.items()
        ],
    }
    return Response(orjson.dumps(manifest), mimetype="application/manifest+json")
