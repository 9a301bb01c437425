"""The buttons of notifications in browsers: the script push.js sends the request."""

from flask import Response

from models.domain.enums import OtherContactType
from web.callbacks import by_token


def act(token: str, action: str) -> Response:
    """Acknowledge or resolve the incident of a notification in a browser."""
    return by_token.act(OtherContactType.WEB_PUSH, token, action)
