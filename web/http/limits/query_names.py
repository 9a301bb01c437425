"""Refuse a misspelt query parameter: without it, a list would be longer than what was asked for.

Only Tocsin's own operations refuse it. Those of the interface specification ignore unknown parameters, and
published clients send some.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from web.http.errors import BadRequest

OWN_PATH = "/api/tocsin/"
PAGE_NAMES = ("page", "page_size")
# How many unknown names an error has, and how much of each.
MAX_UNKNOWN, MAX_SHOWN = 10, 64


def require_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raise BadRequest that names each parameter that is not known, with the most similar one that is."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadRequest({name[:MAX_SHOWN]: [_explain(name, known)] for name in unknown[:MAX_UNKNOWN]})


def _explain(name: str, known: Collection[str]) -> str:
    if not known:
        return "This operation has no query parameters."
    similar = get_close_matches(name[:MAX_SHOWN], known, n=1)
    if similar:
        return f"No such parameter; did you mean {similar[0]}?"
    return f"No such parameter. There are: {', '.join(known)}."
