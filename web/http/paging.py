"""Pages of long lists: {count, next, previous, results}, contract section 1.7."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

import peewee
from flask import Response, g, request

from web.http import serialization
from web.http.errors import NotFound
from web.http.fields import OptionalNumber, Schema, Text

DEFAULT_SIZE = 10
# Contract section 6: a page never has more results, even if the request asks for a larger page_size.
MAX_SIZE = 100

# Rows of an array without a requested page: 17 MB with the longest texts.
MAX_ARRAY = 1_000

# What the query of a list finds: a row, or the columns of a row.
Found = TypeVar("Found")

_NUMBER = re.compile(r"[1-9][0-9]{0,6}")


class PageSchema(Schema):
    """A page of a list, without its `results`."""

    count = OptionalNumber(dump_only=True)
    next = Text(dump_only=True, allow_none=True)
    previous = Text(dump_only=True, allow_none=True)


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that a request asks for. Page numbers begin at 1."""

    number: int
    size: int

    @property
    def start(self) -> int:
        return (self.number - 1) * self.size


def read_page(body: Mapping[str, object] | None = None, *, default: int = DEFAULT_SIZE) -> Page:
    """Read the page from the query, or else from the body. NotFound for an invalid page number.

    `default` is the size if the request names none.
    """
    parameters = {**(body or {}), **request.args.to_dict()}
    number = str(parameters.get("page") or 1)
    if not _NUMBER.fullmatch(number):
        raise NotFound
    size = str(parameters.get("page_size") or default)
    size_asked = int(size) if _NUMBER.fullmatch(size) else default
    return Page(int(number), min(size_asked, MAX_SIZE))


def build_page(
    query: peewee.SelectBase,
    page: Page,
    show: Callable[[list[Found]], Sequence[object]],
    count: int | None = None,
) -> dict[str, object]:
    """Build a page of an ordered query. One more row is read to know whether there is a next page."""
    rows = list(query.limit(page.size + 1).offset(page.start))
    if not rows and page.number > 1:
        raise NotFound
    return {
        "count": count,
        "next": _build_url(page, 1) if len(rows) > page.size else None,
        "previous": _build_url(page, -1) if page.number > 1 else None,
        "results": show(rows[: page.size]),
    }


def build_array(
    query: peewee.SelectBase,
    show: Callable[[list[Found]], Sequence[object]],
    latest: peewee.SelectBase | None = None,
) -> Response:
    """Build the array of a long list: the requested page, or else at most MAX_ARRAY rows.

    These are the first rows or, with `latest` (the query in reverse order), the last ones. The header `Link`
    (RFC 8288) has the addresses of the other rows.
    """
    if "page" in request.args:
        page = build_page(query, read_page(), show)
        links = {name: page[name] for name in ("next", "previous")}
        return _build_linked(page["results"], links)
    rows = list((query if latest is None else latest).limit(MAX_ARRAY + 1))
    has_more, rows = len(rows) > MAX_ARRAY, rows[:MAX_ARRAY]
    first = _build_url(Page(1, MAX_SIZE), 0) if has_more else None
    return _build_linked(show(rows if latest is None else rows[::-1]), {"first": first})


def _build_linked(rows: object, links: Mapping[str, object]) -> Response:
    response = serialization.build_response(rows)
    for relation, url in links.items():
        if url is not None:
            response.headers.add("Link", f'<{url}>; rel="{relation}"')
    return response


def build_links(page: Page, count: int) -> dict[str, str | None]:
    """Return `next` and `previous` of a page in a list of `count` rows. NotFound after the last page."""
    if page.number > 1 and page.start >= count:
        raise NotFound
    return {
        "next": _build_url(page, 1) if page.start + page.size < count else None,
        "previous": _build_url(page, -1) if page.number > 1 else None,
    }


def _build_url(page: Page, by: int) -> str:
    """Return the URL of another page, with the same filters. Unknown parameters are left out."""
    path = request.path if request.path.endswith("/") else f"{request.path}/"
    pages = {"page": page.number + by, "page_size": page.size}
    filters = [(name, value) for name, value in request.args.items(multi=True) if name in g.route.query_names]
    query = urlencode([*((name, value) for name, value in filters if name not in pages), *pages.items()])
    return serialization.build_url(f"{path}?{query}")
