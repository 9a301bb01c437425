"""Headers of all answers: no cache keeps them, and no browser guesses their type or frames them."""

import base64
import hashlib
import re
from urllib.parse import urlsplit

from flask import Response, current_app

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def add_headers(response: Response) -> Response:
    """Add the headers that the view has not set: a view can allow more, for example a cache."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def allow_docs(response: Response) -> Response:
    """Allow the page of the API description what it needs: its own files, and requests to the interface.

    Its one inline script is allowed by its hash. Swagger UI writes styles into its elements.
    """
    if response.mimetype == "text/html" and not response.direct_passthrough:
        public = urlsplit(current_app.config["SETTINGS"].public_url)
        scripts = " ".join(map(_hash, _INLINE_SCRIPT.findall(response.get_data())))
        response.headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline';"
            f" img-src 'self' data:; connect-src 'self' {public.scheme}://{public.netloc};"
            " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    return response


def _hash(script: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
