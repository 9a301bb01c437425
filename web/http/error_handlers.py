"""Turn exceptions into responses. No other module does this."""

import logging
import traceback

import peewee
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from models.store.store import STORE_ERRORS, store
from web.http import serialization
from web.http.errors import ApiError, BadRequest, Busy, NotFound, TooLarge, Unavailable

log = logging.getLogger("tocsin.web")

# Texts for requests that Flask itself rejects; every other status has its standard phrase.
DETAILS = {
    400: BadRequest.detail,
    404: NotFound.detail,
    405: "Method not allowed.",
    413: TooLarge.detail,
}


def answer_error(error: ApiError) -> Response:
    body: dict[str, object] = {"detail": error.detail}
    if error.fields:
        body["errors"] = dict(error.fields)
    body |= error.members
    g.refusal = body
    response = serialization.build_response(body, error.status)
    response.headers.update(error.headers)
    return response


def _answer_http(error: HTTPException) -> Response:
    """Answer an error of Flask or Werkzeug: unknown path, wrong method, body too large."""
    status = error.code or 500
    # The page that a browser gets (web/pages/start.py) shows the same.
    g.refusal = {"detail": DETAILS.get(status, f"{error.name}.")}
    response = serialization.build_response(g.refusal, status)
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def _answer_conflict(error: peewee.IntegrityError) -> Response:
    """Answer an integrity error: another request changed or deleted a row that this request refers to."""
    _log_error(error)
    why = "Another request changed or deleted an object that this request names. Read it, then try again."
    return answer_error(BadRequest({"body": [why]}))


def _answer_gone(_: peewee.DoesNotExist) -> Response:
    """Answer a request whose object was deleted while the request was served."""
    return answer_error(NotFound())


def _answer_unavailable(error: Exception) -> Response:
    _log_error(error)
    return answer_error(Busy() if store().is_lock_timeout(error) else Unavailable())


def _answer_unexpected(error: Exception) -> Response:
    _log_error(error)
    return answer_error(ApiError())


def _log_error(error: Exception) -> None:
    """Log where the error happened, not its message: error messages can contain users' data."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames[-8:]))
    rule = request.url_rule.rule if request.url_rule else "?"
    log.error("%s in %s %s: %s", type(error).__name__, request.method, rule, where)


def register(app: Flask) -> None:
    app.register_error_handler(ApiError, answer_error)
    app.register_error_handler(HTTPException, _answer_http)
    app.register_error_handler(peewee.IntegrityError, _answer_conflict)
    app.register_error_handler(peewee.DoesNotExist, _answer_gone)
    for kind in STORE_ERRORS:
        app.register_error_handler(kind, _answer_unavailable)
    app.register_error_handler(Exception, _answer_unexpected)
