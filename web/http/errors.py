"""The errors of the interface. The answer has the form {"detail": ...} (contract section 1.3).

Raise BadRequest, Forbidden or NotFound where the error is found; error_handlers.py turns them into answers.
`BadRequest({"field": ["why"]})` names fields; `reject("field", "why")` raises it. The answer shows them as
a second member `errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import NoReturn

from marshmallow.exceptions import SCHEMA

from models.changes.changed_since import ChangedField

Fields = Mapping[str, list[str]]


class ApiError(Exception):
    """Base of all errors. Subclasses define the status and the text of the contract."""

    status = 500
    detail = "Something went wrong on our side."
    headers: Mapping[str, str] = {}
    # More members of the answer.
    members: Mapping[str, object] = {}

    def __init__(self, fields: Fields | None = None, detail: str | None = None) -> None:
        super().__init__(detail or self.detail)
        self.fields = fields or {}
        self.detail = detail or self.detail


class BadRequest(ApiError):
    status = 400
    detail = "This request can not be processed."


class NotAuthenticated(ApiError):
    status = 401
    detail = "Authentication credentials were not provided."
    headers = {"WWW-Authenticate": "Token"}


class Forbidden(ApiError):
    status = 403
    detail = "You do not have permission to perform this action."


class NotFound(ApiError):
    status = 404
    detail = "Not Found."


class Conflict(ApiError):
    """The state of an object does not allow it. The detail says which, and what to do."""

    status = 409
    detail = "This cannot be done now."


class TooLarge(ApiError):
    status = 413
    detail = "The request body is too large."


class Throttled(ApiError):
    status = 429
    detail = "Request was throttled."

    def __init__(self, retry_after_s: int) -> None:
        super().__init__()
        self.headers = {"Retry-After": str(retry_after_s)}


class NumberDiffers(ApiError):
    """Another request changed the object first.

    The answer has the object as it is now, its number, and the fields that were changed since.
    """

    status = 412
    detail = "Another request changed this object. Compare with `current`, then use its number in If-Match."

    def __init__(self, number: int, current: object, changed: list[ChangedField]) -> None:
        super().__init__()
        self.headers = {"ETag": f'"{number}"'}
        self.members = {"number": number, "current": current, "changed": changed}


class Unavailable(ApiError):
    status = 503
    detail = "The service is temporarily unavailable."
    headers = {"Retry-After": "5"}


class Busy(Unavailable):
    """This process does too much of this kind of work at the moment."""

    headers = {"Retry-After": "1"}


def reject(field: str, reason: str) -> NoReturn:
    """Refuse the request because of one field."""
    raise BadRequest({field: [reason]})


@contextmanager
def collect_refusals() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Let several checks refuse one request, so that its answer names all wrong fields.

    The value is a function that opens the context of one check. At the end, raise what they refused.
    """
    fields: dict[str, list[str]] = {}

    @contextmanager
    def check() -> Iterator[None]:
        try:
            yield
        except BadRequest as error:
            if not error.fields:
                raise
            for name, reasons in error.fields.items():
                fields.setdefault(name, []).extend(reasons)

    yield check
    if fields:
        raise BadRequest(fields)


def describe_refusal(error: ApiError) -> list[str]:
    """Return a refusal in sentences: for each wrong field its reason, or else the detail."""
    found = [f"{_name_field(name)}: {' '.join(reasons)}" for name, reasons in error.fields.items()]
    return found or [error.detail]


def _name_field(name: str) -> str:
    return name.replace("_", " ").capitalize()


# How many places of a body one answer names.
MAX_PLACES = 20


def reject_places(wrong: Iterable[tuple[str, str]]) -> None:
    """Refuse the request if a place in its body is wrong: pairs of a place and a reason."""
    fields = {place: [reason] for place, reason in islice(wrong, MAX_PLACES)}
    if fields:
        raise BadRequest(fields)


def flatten(messages: object, name: str = "") -> dict[str, list[str]]:
    """Convert marshmallow's nested messages to {dotted field: [text]}."""
    found: dict[str, list[str]] = {}
    for field, texts in _list_messages(messages, name):
        found.setdefault(field, []).extend(texts)
    return found


def _list_messages(messages: object, name: str) -> Iterator[tuple[str, list[str]]]:
    if isinstance(messages, Mapping):
        for key, inner in messages.items():
            # Errors of an object as a whole get the name of the object.
            path = ".".join(part for part in (name, str(key)) if part and part != SCHEMA)
            yield from _list_messages(inner, path)
        return
    texts = messages if isinstance(messages, list) else [messages]
    yield name or "body", [str(text) for text in texts]
