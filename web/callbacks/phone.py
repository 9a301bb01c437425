"""Digits that people press in phone calls, and reports about calls.

Only a call that Tocsin made counts, for some minutes, and only for the person whom it called. The number of a
caller proves nothing, so nobody can call Tocsin.
"""

from datetime import timedelta

from flask import Response, request
from peewee import JOIN

from models.domain.enums import ContactType, IncidentStatus, ProviderState, Urgency
from models.domain.reasons import make_reason
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from pipeline.messages.calls import REPEAT, build_question, build_statement, say
from pipeline.messages.content import CHOICES, MessageContent, Recipient, list_offered
from pipeline.messages.incidents import MAX_LISTED, IncidentSummary, build_incidents_content
from web.callbacks.received import is_new
from web.callbacks.twilio import (
    build_reply,
    build_xml,
    find_attempt,
    get_settings,
    read_callback,
    record_once,
)
from web.callbacks.whole_message import answer_message
from web.http.auth import now

# Digits are accepted for this long after Tocsin made the call.
CALL_LIFE = timedelta(minutes=10)
# How often a person can press a key in one call.
MAX_STEPS = 10

PHONE = ContactType.PHONE
TOO_OLD = "This call is too old. Nothing was changed."

# What the final states of a call mean. Who did not press a key has acknowledged nothing: voicemail may have
# taken the call.
STATES = {
    "completed": (ProviderState.DELIVERED, ""),
    "busy": (ProviderState.FAILED, "the number is busy"),
    "no-answer": (ProviderState.FAILED, "nobody took the call"),
    "failed": (ProviderState.FAILED, "the call failed"),
    "canceled": (ProviderState.FAILED, "the call was cancelled"),
}


def press() -> Response:
    """Acknowledge or resolve the incidents of a call, or repeat its text, as the pressed key says."""
    callback, at = read_callback(), now()
    call, digit, step = callback.get("CallSid"), callback.get("Digits"), request.args.get("step", "")
    attempt = find_attempt(callback, call, PHONE)
    if attempt is None or at - attempt.at > CALL_LIFE or not is_new(callback.provider, f"{call}:{step}", at):
        return build_xml(build_statement(TOO_OLD))
    message, contact = attempt.message, attempt.message.contact
    if contact is None or contact.contact_type != PHONE or contact.value != callback.get("To"):
        return build_xml(build_statement(TOO_OLD))
    if digit in CHOICES:
        return build_xml(build_statement(say(answer_message(contact, message, CHOICES[digit], at))))
    next_step = int(step) + 1 if step.isdecimal() and len(step) < 3 else MAX_STEPS + 1
    content = _describe(message)
    offered = list_offered(content)
    if not offered or next_step > MAX_STEPS:
        return build_xml(build_statement("Nothing is open any more. Goodbye." if not offered else "Goodbye."))
    text = say(content.title) if digit == REPEAT else "This key has no meaning."
    url = f"{get_settings().public_url}{request.path}?step={next_step}"
    return build_xml(build_question(text, offered, url))


def _describe(message: Message) -> MessageContent:
    """Return the present content of a message, without links."""
    query = (
        Incident.select(Incident, Service.name.alias("service_name"))
        .join(Service, on=(Incident.service == Service.id), join_type=JOIN.LEFT_OUTER)
        .where(
            Incident.id.in_(Notification.select(Notification.incident).where(Notification.message == message))
        )
        .order_by(Incident.incident_number)
        .limit(MAX_LISTED)
        .objects()
    )
    summaries = [
        IncidentSummary(
            number=incident.incident_number,
            title=incident.title,
            service=incident.service_name,
            urgency=Urgency(incident.urgency),
            level=None,
            since=incident.creation_date,
            reason="",
            link="",
            status=IncidentStatus(incident.status),
        )
        for incident in query
    ]
    return build_incidents_content(summaries, Recipient("")) if summaries else MessageContent("", ())


def report() -> Response:
    """Record how a call ended."""
    callback, at = read_callback(), now()
    call, status = callback.get("CallSid"), callback.get("CallStatus")
    if status in STATES:
        state, why = STATES[status]
        reason = make_reason("provider_error", provider=callback.provider, why=why, code=status)
        record_once(callback.provider, call, status, state, reason, at)
    return build_reply()
