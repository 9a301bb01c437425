"""The page at /api/docs: the OpenAPI description for people. It needs no script and loads nothing.

Sections are collapsed. The page is rendered once per process and sent compressed.
"""

from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from flask import Response, current_app, render_template

from web.http.openapi import document, outline
from web.http.prepared import PreparedAnswer, prepare, respond
from web.http.response_headers import PRIVATE_HEADERS
from web.pages.base import build_policy, hash_styles


def show() -> Response:
    """Show the documentation of the interface."""
    config = current_app.config
    page, policy = _render(config["ROUTES"], config["SETTINGS"].public_url)
    response = respond(page)
    response.headers.update(PRIVATE_HEADERS)
    response.headers["Content-Security-Policy"] = policy
    return response


@lru_cache(maxsize=1)
def _render(routes: tuple[object, ...], public_url: str) -> tuple[PreparedAnswer, str]:
    """Return the page, and the policy that allows its one style and nothing else."""
    read = outline.build(document.serialize(routes, public_url))
    html = render_template(
        "api_docs.html",
        outline=read,
        blocks=list(_list_blocks(read.text)),
        slug=_slug,
        url=public_url.rstrip("/"),
        description=f"{urlsplit(public_url).path.rstrip('/')}{document.PATH}",
    )
    return prepare("text/html", html.encode()), build_policy(hash_styles(html), forms="'none'")


def _list_blocks(text: str) -> Iterator[list[str]]:
    """Yield the paragraphs of a text; those that are lists as several items."""
    for block in text.strip().split("\n\n"):
        items = [" ".join(item.split()) for item in block.split("\n* ")]
        yield [item.removeprefix("* ") for item in items]


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
