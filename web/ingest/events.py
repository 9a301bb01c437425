"""Accept alerts, and show their status: contract sections 2.7, 3.9, 4.1 and X36.

Acceptance must be fast. So it decodes the body once, and uses the store only in the group commit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import peewee
from flask import Response, current_app, g, request
from marshmallow import fields, validate

from models.domain import identity
from models.domain.enums import AlertType, WorkState
from models.load.lane import get_team_of_service
from models.reports import alert_answer, alert_trace
from models.store.ids import make_trace_id
from models.tables.events import Event, Receipt
from models.tables.services import Service
from pipeline.sources import heartbeat, httphealthcheck
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.forms import read_form
from pipeline.sources.table import SOURCES, Source
from web.changes.rights import select_readable
from web.http import access, auth, client_profile, paging, serialization
from web.http.concurrency_limit import start_client_check
from web.http.errors import BadRequest, Busy, Forbidden, NotFound, TooLarge, Unavailable
from web.http.fields import Boolean, List, Number, OptionalNumber, Schema, Text, explain
from web.incidents import alerts
from web.incidents.repeated_alerts import find_repeated
from web.ingest import alert_results, event_operation, fast_path
from web.ingest.event_operation import build_accepted
from web.ingest.group_commit import GroupCommit, NotStoredError, Submission, get_remaining_s
from web.ingest.large_bodies import LargeBodies, TooManyError

# Returns the body to store for a body as it was sent. Raises BadBody.
Rewrite = Callable[[bytes], bytes]

commits = GroupCommit()
large_bodies = LargeBodies()
results = alert_results.AlertResults()


# A link of an alert that has a text besides its address.
LINK = {
    "type": "object",
    "properties": {
        "link_url": {"type": "string", "description": "The http or https address."},
        "link_text": {"type": "string", "description": "What people read instead of the address."},
    },
}


# These schemas are for the documentation only: the views read and build bodies without a schema.
class AlertBodySchema(Schema):
    """An alert. Unknown names are ignored. Texts have no limit: no length is a reason to refuse an alert."""

    message = fields.String(
        required=True,
        validate=validate.Length(min=1),
        metadata=explain(
            "What happened, in one line; the title of a new incident. Truncated after 1,000 characters."
        ),
    )
    summary = fields.String(
        metadata=explain("What people should know beyond the message. Truncated after 16,384 characters.")
    )
    alert_type = fields.String(
        validate=validate.OneOf([level.name.lower() for level in AlertType]),
        metadata=explain(
            "The level, or what happened to the problem; default: `info`. Case does not matter; the"
            " digits of answers are read too."
        ),
    )
    suppressed = Boolean(metadata=explain("true: the alert is stored and notifies nobody; default: false."))
    entity_id = fields.String(
        metadata=explain(
            "What the alert is about. Alerts with the same entity_id join one open incident; without"
            " one, each alert is alone."
        )
    )
    payload = fields.Dict(metadata=explain("Any data of the source, for conditions and templates of rules."))
    urls = List(
        fields.Raw(metadata={"oneOf": [{"type": "string"}, LINK]}),
        metadata=explain("http and https addresses, or objects with `link_url` and `link_text`."),
    )
    sla = fields.String(
        metadata=explain("The unique_id or name of the SLA of a new incident. An unknown one is ignored.")
    )
    escalation_policy = fields.String(
        metadata=explain(
            "The unique_id or name of the escalation policy of a new incident. An unknown one is ignored."
        )
    )
    priority = fields.String(
        metadata=explain(
            "The unique_id or name of the priority of a new incident. An unknown one is ignored."
        )
    )
    tags = List(
        fields.String(),
        metadata=explain("The unique_ids or names of tags for the incident. Unknown ones are ignored."),
    )
    stakeholders = fields.Dict(
        metadata=explain("Who gets a mail about the incident: lists `users`, `teams` and `emails`.")
    )
    stakeholder_comms = fields.Dict(
        metadata=explain("The text of this mail: `subject`, `body`, `timezone` and `created_by`.")
    )


# What the answer to an alert says of fields that other forms name otherwise.
ASSUMED = explain(
    "What Tocsin took from fields of other forms, in sentences: a title as the message, or severity, level,"
    " status or state as the level. Only if it took something."
)


class EventSchema(alerts.AlertSchema):
    assumed = List(fields.String(), dump_only=True, metadata=ASSUMED)
    incident = OptionalNumber(
        dump_only=True,
        metadata=explain("The number of the alert's incident, only after `Prefer: wait`; else null."),
    )
    payload = fields.Dict(dump_only=True, metadata=explain("The data of the source. With `Bearer` only."))
    incident_created = Boolean(
        dump_only=True, metadata=explain("true: the alert opened the incident. Only after `Prefer: wait`.")
    )


class AcceptedSchema(Schema):
    """The answer to accepted alerts. Two fields are present only after `Prefer: wait`."""

    assumed = List(fields.String(), dump_only=True, metadata=ASSUMED)

    message = Text(dump_only=True, metadata=explain("Always `success`: the alerts are stored."))
    trace_id = Text(
        dump_only=True,
        metadata=explain("Identifies this request. It leads to the status and the trace of its alerts."),
    )
    incident = OptionalNumber(
        dump_only=True,
        metadata=explain("The number of the alert's incident; null: none. Only after `Prefer: wait`."),
    )
    incident_created = Boolean(
        dump_only=True, metadata=explain("true: the alert opened the incident. Only after `Prefer: wait`.")
    )


class IntegrationNameSchema(Schema):
    name = Text(dump_only=True)


class OpenedIncidentSchema(Schema):
    incident_number = Number(dump_only=True)
    unique_id = Text(dump_only=True)


class StatusSchema(Schema):
    """The status of an alert."""

    status = Text(
        dump_only=True,
        metadata=explain("`queued`, `completed` or `failed`. A failed alert is a dead letter."),
    )
    alert = Text(
        allow_none=True,
        dump_only=True,
        metadata=explain(
            "The unique_id of the alert; null: not processed yet, or no router rule sent it to an"
            " integration."
        ),
    )
    integration = fields.Nested(
        IntegrationNameSchema,
        allow_none=True,
        dump_only=True,
        metadata=explain("The integration that got the alert; null: none."),
    )
    incident = fields.Nested(
        OpenedIncidentSchema,
        allow_none=True,
        dump_only=True,
        metadata=explain("The incident of the alert; null: none."),
    )
    suppressed = Boolean(
        dump_only=True, metadata=explain("true: the alert opened no incident and notified nobody.")
    )
    is_incident_created = Boolean(dump_only=True, metadata=explain("true: the alert opened the incident."))
    error = Text(
        dump_only=True,
        metadata=explain("Why the alert could not be processed. Only if `status` is `failed`."),
    )


class TraceQuery(Schema):
    page = Text(metadata=explain("The number of the page of alerts, from 1."))
    page_size = Text(
        metadata=explain(f"Alerts per page: {alert_trace.PAGE_SIZE} by default, at most {paging.MAX_SIZE}.")
    )


ALERT_BODY = AlertBodySchema()
EVENT = EventSchema()
ACCEPTED = AcceptedSchema()
ALERT_STATUS = StatusSchema()
TRACE_QUERY = TraceQuery()


def create_by_key(integration_key: str) -> Response:
    """Accept an alert by the key of its integration alone."""
    submission, body = _ingest_by_key(integration_key)
    shows_payload = client_profile.current().shows_payload
    event = event_operation.build_event(submission, body, shows_payload=shows_payload)
    return _build_response(submission, event, 201)


def create(account_id: str, extension: str, integration_key: str) -> Response:
    """Accept alerts of a monitoring tool. An integration with `accepts_get` also takes GET with a query."""
    submission = ingest(extension, integration_key, account_id)
    return _build_response(submission, build_accepted(submission, submission.assumed))


def create_by_application(extension: str, integration_key: str) -> Response:
    """Accept alerts of a monitoring tool."""
    submission = ingest(extension, integration_key)
    return _build_response(submission, build_accepted(submission, submission.assumed))


def ping(integration_key: str, account_id: str | None = None) -> Response:
    """Accept a ping of a heartbeat. It may have any body, or none.

    A failed job sends `?status=failed&message=...`.
    """
    submission = ingest(heartbeat.EXTENSION, integration_key, account_id)
    return _build_response(submission, build_accepted(submission))


def create_with_level(integration_key: str, alert_type: str, account_id: str | None = None) -> Response:
    """Accept an alert with its level in the path. It may have any body, or none."""
    build_body = partial(httphealthcheck.build_body, alert_type)
    submission = ingest(httphealthcheck.EXTENSION, integration_key, account_id, rewrite=build_body)
    return _build_response(submission, build_accepted(submission))


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


def ingest(
    extension: str,
    key: str,
    account_id: str | None = None,
    *,
    raw: bytes | None = None,
    rewrite: Rewrite | None = None,
) -> Submission:
    """Read, check and store this request's alerts. Return after the commit.

    `raw` is the body, if it was read before. `rewrite` returns the body to store, with what the path says.
    """
    source = SOURCES.get(extension)
    if source is None:
        raise NotFound
    with _translate_errors(key, account_id) as arrived_at:
        if raw is None:
            raw = read_body(source, may_be_ping=extension == heartbeat.EXTENSION)
        count, problem = 1, None
        with large_bodies.take_turn(len(raw), commits.get_account(key), get_remaining_s(arrived_at)):
            headers = source.pick_headers(request.headers.get)
            body = RequestBody(_rewrite(source, raw) if rewrite is None else rewrite(raw), headers)
            if len(body.raw) > source.max_bytes:
                raise TooLarge
            try:
                count = source.count(body)
            except BadBody as error:
                problem = error
            suits_router = _suits_router(source, body, problem)
        submission = Submission(
            key,
            account_id,
            extension,
            body.raw,
            count,
            make_trace_id(),
            headers,
            for_routers=suits_router,
            arrived_at=arrived_at,
            left_out=body.left_out,
            assumed=event_operation.describe_assumed(body),
        )
        _submit(submission, problem)
    return submission


def _rewrite(source: Source, raw: bytes) -> bytes:
    """Return the body to store: the fields of a form as JSON, if the source takes forms. Raises BadBody."""
    read = read_form(raw, request.headers.get("Content-Type")) if source.takes_forms else None
    return raw if read is None else read


def _ingest_by_key(key: str) -> tuple[Submission, event_operation.EventBody]:
    """Read, check and store the alert of a request to a key alone. Return after the commit."""
    source = SOURCES[generic.EXTENSION]
    with _translate_errors(key, None) as arrived_at:
        sent = read_body(source, may_be_ping=True)
        turn = large_bodies.take_turn(len(sent), commits.get_account(key), get_remaining_s(arrived_at))
        with turn:
            raw = RequestBody(_rewrite_unless_ping(source, sent))
            body = event_operation.EventBody(raw)
            suits_router = _suits_router(source, raw, body.problem)
        submission = Submission(
            key,
            None,
            source.extension,
            raw.raw,
            1,
            make_trace_id(),
            for_routers=suits_router,
            is_ping=body.is_ping,
            arrived_at=arrived_at,
        )
        _submit(submission, body.problem)
    return submission, body


def _rewrite_unless_ping(source: Source, sent: bytes) -> bytes:
    """Return the body as _rewrite() does. A form with too many fields is still a ping of a heartbeat."""
    try:
        return _rewrite(source, sent)
    except BadBody:
        return sent


@contextmanager
def _translate_errors(key: str, account_id: str | None) -> Iterator[float]:
    """Check the key, then run the block with the arrival of the request. Raise what the client gets."""
    error = request.environ.get(fast_path.REFUSED)
    if error is not None:
        raise error
    if not identity.is_uuid(key):
        raise NotFound
    arrived_at = fast_path.get_arrival(request.environ)
    try:
        if not commits.accepts_key(key, account_id, arrived_at):
            raise NotFound
        yield arrived_at
    except BadBody as problem:
        raise BadRequest(problem.errors) from None
    except NotStoredError:
        raise Unavailable from None
    except TooManyError:
        raise Busy from None


def require_key(key: str) -> None:
    """Raise NotFound unless this key accepts alerts. Before, its body is not worth being received or read."""
    with _translate_errors(key, None):
        pass


@contextmanager
def take_turn(size: int, key: str) -> Iterator[None]:
    """Read a body of this many bytes for a known key while the context is open, apart from ingest().

    Raises Busy.
    """
    arrived_at = fast_path.get_arrival(request.environ)
    try:
        with large_bodies.take_turn(size, commits.get_account(key), get_remaining_s(arrived_at)):
            yield
    except TooManyError:
        raise Busy from None


def _suits_router(source: Source, body: RequestBody, problem: BadBody | None) -> bool:
    """Return whether a router accepts this body: any object in the generic form (contract 4.1, row 11)."""
    return problem is None or (source.is_generic and _is_object(body))


def _submit(submission: Submission, problem: BadBody | None) -> None:
    """Commit a submission. BadRequest with the problem of its body, unless its target accepts the body."""
    submission.for_integrations = problem is None
    if problem is not None and not (submission.for_routers or submission.is_ping()):
        raise BadRequest(problem.errors)
    commits.submit(submission)
    if submission.target is None:
        raise NotFound
    if problem is not None and not submission.is_stored:
        raise BadRequest(problem.errors)


def read_body(source: Source, *, may_be_ping: bool = False) -> bytes:
    """Return the raw body; for a ping without a body, the query string."""
    request.max_content_length = source.max_bytes
    body = serialization.read_bytes()
    return body or (request.query_string if may_be_ping else b"")


def _is_object(body: RequestBody) -> bool:
    """Return whether the body is a JSON object."""
    try:
        generic.decode_object(body)
    except BadBody:
        return False
    return True


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
    receipt = _access_receipt(g.viewer, trace_id)
    return serialization.build_response(_build_status(receipt, _select_visible_services(g.viewer, receipt)))


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


def _access_receipt(viewer: auth.Viewer, trace_id: str) -> Receipt:
    """Return the receipt if the viewer may see it.

    NotFound for a receipt of another account, Forbidden within the account.
    """
    receipt = _find_receipt(trace_id)
    if receipt.account_id != viewer.account.id:
        raise NotFound
    if receipt.service_id is not None:
        access.require_permission(viewer, get_team_of_service(receipt.service_id))
    elif (
        not viewer.is_admin
        and alert_trace.find_first_event(receipt, _select_visible_services(viewer, receipt)) is None
    ):
        raise Forbidden if receipt.router_id is not None else NotFound
    return receipt


def _select_visible_services(viewer: auth.Viewer, receipt: Receipt) -> peewee.ModelSelect | None:
    """Return a query of the services whose events of this receipt the viewer may see; None for all events.

    A receipt of a router can have events in several teams. A receipt of a deleted service or router can
    belong to no team.
    """
    if receipt.service_id is not None or viewer.is_admin:
        return None
    return Service.select(Service.id).where(Service.team.in_(access.select_permitted_teams(viewer)))


def get_trace(trace_id: str) -> dict[str, object]:
    """Get the trace of an alert. It has each stage with its reason, the incident, timers and deliveries.

    `answer` says who was notified or, if nobody was, why. It is made from the alerts of the page.
    The alerts of a large body have pages, by default of 100 alerts. `incidents` are those of the page.
    `is_truncated`: an incident has more entries, which its timeline shows. `changed_before` names changes of
    the configuration since the alert before of the same entity, if the two were treated differently.
    """
    return load_trace(auth.viewer(), trace_id, paging.read_page(default=alert_trace.PAGE_SIZE))


@auth.operation("incident_read")
def load_trace(viewer: auth.Viewer, trace_id: str, page: paging.Page) -> alert_trace.JsonDict:
    """Return the trace of an alert, with the alerts of a page."""
    try:
        receipt = _access_receipt(viewer, trace_id)
    except NotFound:
        raise NotFound(detail=_describe_unknown_alert()) from None
    services = _select_visible_services(viewer, receipt)
    trace = alert_trace.build_trace(
        receipt,
        services,
        start=page.start,
        size=page.size,
        readable=lambda changes: select_readable(changes, viewer),
    )
    answer = alert_answer.write_answer(trace, find_repeated(receipt, services))
    return {"answer": answer, **trace, **paging.build_links(page, trace["count"])}


def _describe_unknown_alert() -> str:
    """Return the same text for alerts that were deleted, that never existed, and of other accounts."""
    days = current_app.config["SETTINGS"].keep_alerts
    return f"No alert with this trace_id is stored. Alerts are deleted {days} days after they were accepted."
