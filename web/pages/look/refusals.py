"""Put the texts of a refusal beside the fields of a form."""

from collections.abc import Collection

from web.http.errors import ApiError


def place(error: ApiError, shown: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """Return what stands above a form, and what stands at each of its fields, by name."""
    at_fields = {name: _join(texts) for name, texts in error.fields.items() if name in shown}
    others = [
        f"{name.replace('_', ' ').capitalize()}: {_join(texts)}"
        for name, texts in error.fields.items()
        if name not in shown
    ]
    above = others or ([] if at_fields else [error.detail])
    return above, at_fields


def _join(texts: Collection[object]) -> str:
    return " ".join(map(str, texts))
