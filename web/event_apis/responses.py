"""Answers in the form of another service: always JSON, also for errors."""

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec
from wsgiref.types import WSGIEnvironment

from flask import Response
from werkzeug.exceptions import RequestEntityTooLarge

from web.http import serialization
from web.http.errors import ApiError, NotFound, TooLarge
from web.ingest import fast_path

P = ParamSpec("P")
# Builds the status and the body of the answer to an error.
DescribeError = Callable[[ApiError], tuple[int, object]]


def build_answer(value: object, status: int) -> Response:
    return Response(serialization.dump_json(value), status, mimetype=serialization.JSON)


def with_errors(describe: DescribeError) -> Callable[[Callable[P, Response]], Callable[P, Response]]:
    """Answer the errors of a view in the form of its API."""

    def decorate(view: Callable[P, Response]) -> Callable[P, Response]:
        @wraps(view)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Response:
            try:
                return view(*args, **kwargs)
            except ApiError as error:
                return _answer_error(error, describe)
            except RequestEntityTooLarge:
                return _answer_error(TooLarge(), describe)

        return answer

    return decorate


def _answer_error(error: ApiError, describe: DescribeError) -> Response:
    status, value = describe(error)
    response = build_answer(value, status)
    response.headers.update(error.headers)
    return response


def list_reasons(error: ApiError) -> list[str]:
    """Return the reasons of an error, each with the name of its field."""
    reasons = [f"{field} {text}" for field, texts in error.fields.items() for text in texts]
    return reasons or ["The key is unknown." if isinstance(error, NotFound) else error.detail]


def get_seconds(environ: WSGIEnvironment) -> float:
    """Return the seconds since the request arrived."""
    return round(time.monotonic() - fast_path.get_arrival(environ), 3)
