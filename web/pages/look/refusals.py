"""Put the texts of a refusal beside the fields of a form."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flask import request

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


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """One of several forms of a page, as it was filled in, and why it was refused.

    `act` is the name of its button. `at_fields` has the texts that stand beside its fields, by name.
    """

    heading: str
    act: str
    values: Mapping[str, str]
    above: list[str]
    at_fields: Mapping[str, str]


def read_refused_form(error: ApiError, heading: str) -> RefusedForm:
    """Return the form of this request. Its texts stand above it too: not each field of a refusal has one."""
    above, _ = place(error, ())
    at_fields = {name: _join(texts) for name, texts in error.fields.items()}
    return RefusedForm(heading, request.form.get("act", ""), request.form.to_dict(), above, at_fields)


def _join(texts: Collection[object]) -> str:
    return " ".join(map(str, texts))
