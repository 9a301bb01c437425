"""Accept alerts, and show their status: contract sections 2.7, 3.9, 4.1 and X36.

Acceptance must be fast. So it decodes the body once, and uses the store only in the group commit.
"""

import uuid
from contextlib import suppress
from dataclasses import dataclass

import peewee
from flask import Response, current_app, g, request
from marshmallow import fields, validate

from models.domain import identity
from models.domain.enums import AlertType, WorkState
from models.load.lane import get_team_of_service
from models.reports import alert_trace
from models.tables.events import Event, Receipt
from models.tables.services import Service
from pipeline.alert import ParsedAlert
from pipeline.sources import SOURCES, Source, generic, heartbeat
from pipeline.sources.body import BadBody, RequestBody
from web.http import access, auth, client_profile, paging, serialization
from web.http.concurrency_limit import start_client_check
from web.http.errors import BadRequest, Busy, Forbidden, NotFound, Unavailable
from web.http.fields import Boolean, List, Number, OptionalNumber, Schema, Text
from web.incidents import alerts, attachments
from web.ingest import alert_results, fast_path
from web.ingest.group_commit import GroupCommit, KeyTarget, NotStoredError, Submission, get_remaining_s
from web.ingest.large_bodies import LargeBodies, TooManyError

commits = GroupCommit()
large_bodies = LargeBodies()
results = alert_results.AlertResults()


# These schemas are for the documentation only: the views read and build bodies without a schema.
class AlertBodySchema(Schema):
    """An alert. Alerts with the same `entity_id` are about the same entity. Unknown names are ignored."""

    message = Text(required=True)
    summary = Text()
    alert_type = Text(validate=validate.OneOf([level.name.lower() for level in AlertType]))
    suppressed = Boolean()
    entity_id = Text()
    payload = fields.Dict()
    urls = List(Text())
    sla = Text()
    escalation_policy = Text()
    priority = Text()
    tags = List(Text())
    stakeholders = fields.Dict()
    stakeholder_comms = fields.Dict()


class EventSchema(alerts.AlertSchema):
    incident = OptionalNumber(dump_only=True)
    payload = fields.Dict(dump_only=True, metadata={"description": "With `Bearer` only."})
    incident_created = Boolean(dump_only=True)


class AcceptedSchema(Schema):
    """The answer to accepted alerts. The last two fields are present only after `Prefer: wait`."""

    message = Text(dump_only=True)
    trace_id = Text(dump_only=True)
    incident = OptionalNumber(dump_only=True)
    incident_created = Boolean(dump_only=True)


class IntegrationNameSchema(Schema):
    name = Text(dump_only=True)


class OpenedIncidentSchema(Schema):
    incident_number = Number(dump_only=True)
    unique_id = Text(dump_only=True)


class StatusSchema(Schema):
    """The status of an alert. `error` is present only if Tocsin could not process the alert."""

    status = Text(dump_only=True)
    alert = Text(allow_none=True, dump_only=True)
    integration = fields.Nested(IntegrationNameSchema, allow_none=True, dump_only=True)
    incident = fields.Nested(OpenedIncidentSchema, allow_none=True, dump_only=True)
    suppressed = Boolean(dump_only=True)
    is_incident_created = Boolean(dump_only=True)
    error = Text(dump_only=True)


class TraceQuery(Schema):
    page = Text(metadata={"description": "The number of the page of alerts, from 1."})
    page_size = Text(
        metadata={
            "description": f"Alerts per page: {alert_trace.PAGE_SIZE} by default, at most {paging.MAX_SIZE}."
        }
    )


ALERT_BODY = AlertBodySchema()
EVENT = EventSchema()
ACCEPTED = AcceptedSchema()
ALERT_STATUS = StatusSchema()
TRACE_QUERY = TraceQuery()


def create_by_key(integration_key: str) -> Response:
    """Create an event by the integration key alone (deprecated)."""
    submission, parsed = _ingest(generic.EXTENSION, integration_key, by_key_alone=True)
    assert submission.target is not None
    if submission.target.router is not None:
        # The integrations to which the router sends the alert are not known yet (contract 4.1, row 15).
        return _build_response(submission, _build_answer(submission), 201)
    event = _build_event(submission, submission.target, parsed[0])
    if not client_profile.current().shows_payload:
        del event["payload"]
    return _build_response(submission, event, 201)


def create(account_id: str, extension: str, integration_key: str) -> Response:
    """Create events by account, application and integration key."""
    submission, _ = _ingest(extension, integration_key, account_id)
    return _build_response(submission, _build_answer(submission))


def create_by_application(extension: str, integration_key: str) -> Response:
    """Accept the webhook of a monitoring tool."""
    submission, _ = _ingest(extension, integration_key)
    return _build_response(submission, _build_answer(submission))


def ping(integration_key: str, account_id: str | None = None) -> dict[str, object]:
    """Accept a ping, with any body or none. A failed job sends `?status=failed&message=...`"""
    return _build_answer(_ingest(heartbeat.EXTENSION, integration_key, account_id)[0])


def _build_answer(submission: Submission) -> dict[str, object]:
    """Build the answer to committed alerts: contract section 3.9."""
    return {"message": "success", "trace_id": submission.trace_id}


def _build_response(submission: Submission, answer: dict[str, object], status: int = 200) -> Response:
    """Build the response to committed alerts.

    With `Prefer: wait`, first wait for the result of the alert and add it (contract 4.1, row 23).
    """
    seconds = alert_results.parse_seconds(request.headers.get("Prefer", ""))
    result = _await_result(submission, seconds) if seconds else None
    if result is None:
        return serialization.build_response(answer, status)
    answer |= {"incident": result.incident, "incident_created": result.incident_created}
    response = serialization.build_response(answer, status)
    response.headers["Preference-Applied"] = f"wait={seconds}"
    return response


def _await_result(submission: Submission, seconds: int) -> alert_results.AlertResult | None:
    threads: int = current_app.config["SETTINGS"].web_threads
    return results.wait(
        submission.trace_id,
        submission.key,
        seconds,
        max_requests=threads // alert_results.THREADS_PER_REQUEST,
        start_client_check=start_client_check,
    )


def _ingest(
    extension: str, key: str, account_id: str | None = None, *, by_key_alone: bool = False
) -> tuple[Submission, list[ParsedAlert]]:
    """Read, check and store this request's alerts. Return after the commit."""
    error = request.environ.get(fast_path.REFUSED)
    if error is not None:
        raise error
    source = SOURCES.get(extension)
    if source is None or not identity.is_uuid(key):
        raise NotFound
    arrived_at = fast_path.get_arrival(request.environ)
    try:
        if not commits.accepts_key(key, account_id, arrived_at):
            raise NotFound
        body = RequestBody(_read_body(source, by_key_alone or extension == heartbeat.EXTENSION))
        with large_bodies.take_turn(len(body.raw), get_remaining_s(arrived_at)):
            alerts = _parse_body(source, body, by_key_alone=by_key_alone)
        submission = _build_submission(source, key, account_id, body, alerts)
        submission.arrived_at = arrived_at
        if alerts.problem is not None and not (submission.for_routers or submission.for_heartbeats):
            raise BadRequest(alerts.problem.errors)
        commits.submit(submission)
    except NotStoredError:
        raise Unavailable from None
    except TooManyError:
        raise Busy from None
    if submission.target is None:
        raise NotFound
    if alerts.problem is not None and not submission.is_stored:
        raise BadRequest(alerts.problem.errors)
    return submission, alerts.parsed if submission.source == extension else alerts.pings


@dataclass(frozen=True, slots=True)
class _Alerts:
    """What a body contains.

    `parsed` has the alerts only if the answer shows them; `problem` is the error of the body. If the address
    names no application, `pings` has the body as a heartbeat reads it.
    """

    count: int
    problem: BadBody | None
    parsed: list[ParsedAlert]
    pings: list[ParsedAlert]
    is_object: bool


def _parse_body(source: Source, body: RequestBody, *, by_key_alone: bool) -> _Alerts:
    count, problem, parsed, pings = 1, None, [], []
    try:
        if by_key_alone:
            # The application of the key is not known yet: two sources read the body.
            with suppress(BadBody):
                body.decode_json()
            parsed = source.parse(body)
        else:
            count = source.count(body)
    except BadBody as error:
        problem = error
    if by_key_alone:
        with suppress(BadBody):
            pings = SOURCES[heartbeat.EXTENSION].parse(body)
    # A router's key accepts any object, but only in the generic form.
    is_object = problem is not None and source.extension == generic.EXTENSION and _is_object(body)
    return _Alerts(count, problem, parsed, pings, is_object)


def _build_submission(
    source: Source, key: str, account_id: str | None, body: RequestBody, alerts: _Alerts
) -> Submission:
    return Submission(
        key,
        account_id,
        source.extension,
        body.raw,
        alerts.count,
        str(uuid.uuid4()),
        for_integrations=alerts.problem is None,
        for_routers=alerts.problem is None or alerts.is_object,
        for_heartbeats=bool(alerts.pings),
    )


def _read_body(source: Source, may_be_ping: bool) -> bytes:
    """Return the raw body; for a ping without a body, the query string."""
    request.max_content_length = source.max_bytes
    body = serialization.read_bytes()
    return body or (request.query_string if may_be_ping else b"")


def _is_object(body: RequestBody) -> bool:
    """Return whether the body is a JSON object. A router's key accepts any object (contract 4.1, row 11)."""
    try:
        generic.decode_object(body)
    except BadBody:
        return False
    return True


def _build_event(submission: Submission, target: KeyTarget, parsed: ParsedAlert) -> dict[str, object]:
    """Build the event as it is right after acceptance: without an incident, but with its final ids."""
    assert target.integration is not None
    event_id = identity.make_event_id(submission.trace_id, 0, target.integration)
    entity_id = parsed.entity_id or identity.make_entity_id(submission.trace_id, 0)
    return {
        "integration_object": target.details,
        "summary": parsed.summary,
        "incident": None,
        "creation_date": submission.received_at,
        "message": parsed.message,
        "integration": target.details["unique_id"],
        "suppressed": parsed.suppressed,
        "entity_id": identity.limit_entity_id(entity_id),
        "payload": parsed.payload,
        "alert_type": str(int(parsed.alert_type)),
        "unique_id": event_id,
        **attachments.build_attachments(event_id, parsed.urls, parsed.images, parsed.notes),
        "incident_created": False,
    }


def get_status(trace_id: str) -> Response:
    """Get the status of an alert. For a body with several alerts, the status is that of the first one.

    The request needs a token, unless the operator set TOCSIN_OPEN_ALERT_STATUS. A request without a token
    then gets only the fields without details of the alert.
    """
    anonymous = "Authorization" not in request.headers
    if anonymous and current_app.config["SETTINGS"].open_alert_status:
        answer = _build_status(_find_receipt(trace_id), None)
        return serialization.build_response(
            {name: answer[name] for name in ("status", "suppressed", "is_incident_created")}
        )
    g.viewer = auth.authenticate(auth.now(), g.route.permission)
    receipt = _access_receipt(trace_id)
    return serialization.build_response(_build_status(receipt, _select_visible_services(receipt)))


def _build_status(receipt: Receipt, services: peewee.ModelSelect | None) -> dict[str, object]:
    event = alert_trace.find_first_event(receipt, services)
    integration = event.known_integration if event else receipt.integration
    answer: dict[str, object] = {
        "status": alert_trace.get_status(receipt, [event] if event else []),
        # An alert that a router sent to no integration has no id here (contract 4.7).
        "alert": event.unique_id if event and integration else None,
        "integration": {"name": integration.name} if integration else None,
        "incident": _build_incident(event),
        "suppressed": bool(event and event.suppressed),
        "is_incident_created": bool(event and event.incident_created),
    }
    if answer["status"] == alert_trace.STATE_NAMES[WorkState.DEAD_LETTER]:
        error = receipt.error or (event and event.error)
        answer["error"] = str(error) if error else "Tocsin could not process this alert."
    return answer


def _build_incident(event: Event | None) -> dict[str, object] | None:
    if event is None or event.incident is None:
        return None
    incident = event.incident
    return {"incident_number": incident.incident_number, "unique_id": incident.unique_id}


def _find_receipt(trace_id: str) -> Receipt:
    receipt = alert_trace.find_receipt(trace_id.lower()) if identity.is_uuid(trace_id.lower()) else None
    if receipt is None:
        raise NotFound
    return receipt


def _access_receipt(trace_id: str) -> Receipt:
    """Return the receipt if the viewer may see it.

    NotFound for a receipt of another account, Forbidden within the account.
    """
    viewer = auth.viewer()
    receipt = _find_receipt(trace_id)
    if receipt.account_id != viewer.account.id:
        raise NotFound
    if receipt.service_id is not None:
        access.require_permission(viewer, get_team_of_service(receipt.service_id))
    elif (
        not viewer.is_admin
        and alert_trace.find_first_event(receipt, _select_visible_services(receipt)) is None
    ):
        raise Forbidden if receipt.router_id is not None else NotFound
    return receipt


def _select_visible_services(receipt: Receipt) -> peewee.ModelSelect | None:
    """Return a query of the services whose events of this receipt the viewer may see; None for all events.

    A receipt of a router can have events in several teams. A receipt of a deleted service or router can
    belong to no team.
    """
    viewer = auth.viewer()
    if receipt.service_id is not None or viewer.is_admin:
        return None
    return Service.select(Service.id).where(Service.team.in_(access.select_permitted_teams(viewer)))


def get_trace(trace_id: str) -> dict[str, object]:
    """Get the trace of an alert: each stage with its reason, the incident, timers and deliveries.

    The alerts of a large body have pages, by default of 100 alerts. `incidents` are those of the page.
    `is_truncated`: an incident has more entries, which its timeline shows.
    """
    try:
        receipt = _access_receipt(trace_id)
    except NotFound:
        raise NotFound(detail=_describe_unknown_alert()) from None
    page = paging.read_page(default=alert_trace.PAGE_SIZE)
    trace = alert_trace.build_trace(
        receipt, _select_visible_services(receipt), start=page.start, size=page.size
    )
    return {**trace, **paging.build_links(page, trace["count"])}


def _describe_unknown_alert() -> str:
    """Return the same text for alerts that were deleted, that never existed, and of other accounts."""
    days = current_app.config["SETTINGS"].keep_alerts
    return f"No alert with this trace_id is stored. Alerts are deleted {days} days after they were accepted."
