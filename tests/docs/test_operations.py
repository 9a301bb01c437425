"""The operations of docs/contract.md and docs/api.md are those of the OpenAPI document."""

import re
from functools import cache

from tests.support.documents.files import DOCS
from web.http.openapi import document
from web.routes import ROUTES

SHORT = {
    "{T}": "/api/account/teams/{}",
    "{T2}": "/api/v2/account/teams/{}",
    "{U}": "/api/account/users/{}",
    "{I}": "/api/incidents/{}",
}
# "GET, PUT {T}/schedules/{id}/" in a row of a table.
NAMED = re.compile(
    r"((?:GET|POST|PUT|PATCH|DELETE)(?:, (?:GET|POST|PUT|PATCH|DELETE))*) ((?:/|\{[TUI]2?\})[\w{}/-]+)"
)
# Collection and item of a team element: section 2.6 says which methods they have.
ELEMENT = re.compile(r"^\| [\w ]+ \| (\{T\}/\w+/) \| (\{T\}/\w+/\{id\}/) \|$", re.MULTILINE)
# A path anywhere in a text or an example. Variable segments are in braces, in capitals, or of a shell.
ANY_PATH = re.compile(r"(?<![\w.-])(/(?:api|integration)(?:/(?:\{\w+\}|\$\w+|[\w-]+(?:\.\w+)?))+/?)")


def simplify(path: str) -> str:
    """Return a path with `{}` for each of its variable segments, without abbreviations."""
    for short, full in SHORT.items():
        path = path.replace(f"{short}/", f"{full}/")
    path = re.sub(r"\{\w+\}|<\w+>|\$\w+", "{}", path)
    return re.sub(r"(?<=/)(?=[A-Z0-9_-]*[A-Z])[A-Z0-9_-]+(?=/|$)", "{}", path)


@cache
def list_described() -> frozenset[tuple[str, str]]:
    """Return each operation of the OpenAPI document as method and path."""
    paths = document.document(ROUTES, "https://tocsin.example.org")["paths"]
    return frozenset(
        (method.upper(), simplify(path)) for path, methods in paths.items() for method in methods
    )


@cache
def list_named() -> frozenset[tuple[str, str]]:
    """Return each operation that a table of the two documents names."""
    contract, api = (DOCS / "contract.md").read_text(), (DOCS / "api.md").read_text()
    operations = contract.partition("## 2. Operations")[2].partition("### 2.9")[0]
    named = {
        (method, simplify(path))
        for text in (operations, api)
        for row in re.findall(r"^\|.+\|$", text, re.MULTILINE)
        for methods, path in NAMED.findall(row)
        for method in methods.split(", ")
    }
    for collection, item in ELEMENT.findall(operations):
        named |= {(method, simplify(collection)) for method in ("POST", "GET")}
        named |= {(method, simplify(item)) for method in ("GET", "PUT", "PATCH", "DELETE")}
    return frozenset(named)


def test_every_operation_of_the_description_is_documented():
    # "PUT and PATCH are both served also where the table names one of them."
    update = {"PUT": "PATCH", "PATCH": "PUT"}
    missing = [
        (method, path)
        for method, path in sorted(list_described())
        if (method, path) not in list_named() and (update.get(method), path) not in list_named()
    ]

    assert missing == []


def test_every_documented_operation_is_in_the_description():
    # The generic form is one extension of a webhook.
    generic = {("POST", "/integration/{}/generic/{}/")}

    assert sorted(list_named() - list_described() - generic) == []


def test_every_path_of_a_text_or_an_example_exists():
    """A path may end early: "all operations under /api/tocsin/"."""
    served = [simplify(route.path).strip("/").split("/") for route in ROUTES]
    missing = [
        f"{name}: {path}"
        for name in ("contract.md", "api.md")
        for path in sorted(set(ANY_PATH.findall((DOCS / name).read_text())))
        if not any(begins(route, simplify(path).strip("/").split("/")) for route in served)
    ]

    assert missing == []


def begins(route: list[str], segments: list[str]) -> bool:
    """Return whether these segments are the first ones of a route. A variable one may have any value."""
    return len(segments) <= len(route) and all(
        "{}" in (there, segment) or there == segment for there, segment in zip(route, segments, strict=False)
    )
