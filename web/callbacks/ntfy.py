"""The buttons of messages in ntfy: the phone sends the request that the message contains."""

from flask import Response

from models.domain.enums import OtherContactType
from web.callbacks import by_token


def act(token: str, action: str) -> Response:
    """Acknowledge or resolve the incident of a message in ntfy."""
    return by_token.act(OtherContactType.NTFY, token, action)
