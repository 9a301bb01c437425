"""Answer a message with the signed token of its link, for buttons that call back without a provider's proof.

A phone or a browser sends the request itself, so nobody else says who pressed the button. The token names the
incident, the user and the notification, and expires with the link of the message. It is in the path, and only
POST acts: programs that follow links change nothing.
"""

from flask import Response

from models.links import signed_links
from models.tables.notifications import Notification
from models.tables.users import ContactMethod
from web.callbacks.answer import NOT_FOUND, Answer, answer
from web.http.auth import now

EXPIRED = Answer("This message is too old. Open Tocsin to see the incident.")


def act(contact_type: int, token: str, action: str) -> Response:
    """Do an action of a message to a contact of this type. The answer is one sentence of plain text.

    The status is 2xx only if the action is done, so that an app shows a failure otherwise.
    """
    try:
        link = signed_links.get_reader().read(token, now())
    except signed_links.ExpiredLink:
        return _respond(EXPIRED, 410)
    except signed_links.BadLink:
        return _respond(NOT_FOUND, 404)
    contact = (
        ContactMethod.select()
        .join(Notification, on=(Notification.contact == ContactMethod.id))
        .where(
            Notification.id == link.notification,
            Notification.incident == link.incident,
            Notification.user == link.user,
            ContactMethod.user == link.user,
            ContactMethod.contact_type == contact_type,
        )
        .first()
    )
    if contact is None:
        return _respond(NOT_FOUND, 404)
    found = answer(contact, link.notification, action, now())
    if found is NOT_FOUND:
        return _respond(found, 404)
    return _respond(found, 200 if found.is_done else 409)


def _respond(found: Answer, status: int) -> Response:
    response = Response(f"{found.text}\n", status, content_type="text/plain; charset=utf-8")
    # ntfy's page in a browser may read the answer. It holds nothing that the token does not open.
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response
