"""Headers of all answers: no cache keeps them, and no browser guesses their type or frames them."""

from flask import Response

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

# More headers of pages and calendar feeds, whose addresses can be secrets.
PRIVATE_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}


def add_headers(response: Response) -> Response:
    """Add the headers that the view has not set: a view can allow more, for example a cache."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
