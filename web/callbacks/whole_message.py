"""Acknowledge or resolve all incidents of a message, for a person who can only press or send one digit."""

from datetime import datetime

from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod
from pipeline.messages.content import ACTIONS
from web.callbacks.answer import NOT_FOUND, answer

# One reply changes at most this many incidents. The answer says how many are left.
MAX_INCIDENTS = 100
# An SMS and a call name at most this many.
MAX_NAMED = 5


def answer_message(contact: ContactMethod, message: Message, action: str, now: datetime) -> str:
    """Do an action of ACTIONS on the incidents of a message to this contact, and say what was done.

    Incidents whose status does not allow the action, or that the person may not change, stay as they are.
    """
    _, allowed = ACTIONS[action]
    first_by_incident: dict[int, tuple[int, int]] = {}
    query = (
        Notification.select(Notification.id, Notification.incident, Incident.status)
        .join(Incident)
        .where(Notification.message == message.id)
        .order_by(Notification.id)
    )
    for notification, incident, status in query.tuples():
        first_by_incident.setdefault(incident, (notification, status))
    if not first_by_incident:
        return NOT_FOUND.text
    if len(first_by_incident) == 1:
        ((notification, _),) = first_by_incident.values()
        return answer(contact, notification, action, now).text
    matching = [row for row, status in first_by_incident.values() if status in allowed]
    given = [answer(contact, row, action, now) for row in matching[:MAX_INCIDENTS]]
    done = [f"#{each.incident.incident_number}" for each in given if each.is_done and each.incident]
    return _describe(action, done, len(first_by_incident), max(len(matching) - MAX_INCIDENTS, 0))


def _describe(action: str, done: list[str], total: int, left: int) -> str:
    past = {"acknowledge": "Acknowledged", "resolve": "Resolved"}[action]
    if not done:
        return f"You are too late: there is nothing to {action}, or you have no right to it any more."
    named = ", ".join(done[:MAX_NAMED])
    more = f" and {len(done) - MAX_NAMED} more" if len(done) > MAX_NAMED else ""
    rest = f" {left} more are open: reply again." if left else ""
    return f"{past} {len(done)} of {total} incidents: {named}{more}.{rest}"
