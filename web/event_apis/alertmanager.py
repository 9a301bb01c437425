"""The operation of Alertmanager's API, version 2, to which Prometheus pushes alerts."""

from flask import Response, request

from pipeline.sources import alertmanager
from web.event_apis.keys import clean_key, read_authorization, read_password
from web.event_apis.responses import build_answer, list_reasons, with_errors
from web.http.errors import ApiError, NotAuthenticated, NotFound
from web.ingest import events


class UnknownKey(NotAuthenticated):
    """The request has no key of an integration. API tokens are not accepted here."""

    detail = "The request needs the key of an integration."
    headers = {"WWW-Authenticate": "Bearer"}


def describe_error(error: ApiError) -> tuple[int, object]:
    """Build the answer to an error: a text in JSON, as in the description of the API."""
    return error.status, " ".join(list_reasons(error)) if error.fields else error.detail


@with_errors(describe_error)
def push(integration_key: str = "") -> Response:
    """Accept alerts. Those without labels that can be read are refused; the others are stored in any case."""
    key = clean_key(integration_key) or _read_key()
    try:
        submission = events.ingest(alertmanager.EXTENSION, key)
    except NotFound:
        raise UnknownKey from None
    if submission.left_out:
        return build_answer(
            f"Alerts without labels that can be read, which are not stored: {submission.left_out}.", 400
        )
    return Response(status=200)


def _read_key() -> str:
    """Return the key of the header Authorization or of the query; "" if there is none."""
    query = clean_key(request.args.get("key", ""))
    return read_authorization("Bearer") or read_password() or query
