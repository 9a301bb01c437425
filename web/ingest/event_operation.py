"""The event operation by the integration key alone: how its body is read, and its answer (contract 4.1).

The fast path and the application share this module, so that both give the same answers.
"""

from collections.abc import Sequence
from functools import cached_property

from models.domain import identity
from pipeline.alert import ParsedAlert
from pipeline.sources import heartbeat
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from web.incidents import attachments
from web.ingest.group_commit import KeyTarget, Submission


class EventBody:
    """A body as the generic source and as a heartbeat read it: the source of the key is not known yet.

    A list is empty if the body cannot be read in this way. `problem` is then that of the generic source.
    `assumed` says what was taken from fields of other forms.
    """

    def __init__(self, body: RequestBody) -> None:
        self._body = body
        self.alerts: Sequence[ParsedAlert] = ()
        self.problem: BadBody | None = None
        self.assumed: list[str] = []
        try:
            self.alerts = generic.parse(body)
            self.assumed = describe_assumed(body)
        except BadBody as error:
            self.problem = error

    @cached_property
    def pings(self) -> Sequence[ParsedAlert]:
        """The body as a heartbeat reads it. Few keys are those of heartbeats, so it is read when needed."""
        try:
            return heartbeat.parse(self._body)
        except BadBody:
            return ()

    def is_ping(self) -> bool:
        return bool(self.pings)


def describe_assumed(body: RequestBody) -> list[str]:
    """Return what was taken from fields of other forms, in sentences; the body was read before."""
    return [str(reason) for reason in body.assumed]


def build_accepted(submission: Submission, assumed: Sequence[str] = ()) -> dict[str, object]:
    """Build the answer to committed alerts: contract section 3.9."""
    answer: dict[str, object] = {"message": "success", "trace_id": submission.trace_id}
    return {**answer, "assumed": list(assumed)} if assumed else answer


def build_event(submission: Submission, body: EventBody, *, shows_payload: bool) -> dict[str, object]:
    """Build the event as it is right after the commit: without an incident, but with its final ids.

    The integrations to which a router sends the alert are not known yet: then the answer has only the
    trace_id (contract 4.1, row 15).
    """
    target = submission.target
    assert target is not None
    if target.router is not None:
        return build_accepted(submission, body.assumed)
    is_ping = submission.source == heartbeat.EXTENSION
    parsed = body.pings[0] if is_ping else body.alerts[0]
    answer = _describe(submission, target, parsed, {"payload": parsed.payload} if shows_payload else {})
    return {**answer, "assumed": body.assumed} if body.assumed and not is_ping else answer


def _describe(
    submission: Submission, target: KeyTarget, parsed: ParsedAlert, payload: dict[str, object]
) -> dict[str, object]:
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
        **payload,
        "alert_type": str(int(parsed.alert_type)),
        "unique_id": event_id,
        **attachments.build_attachments(event_id, parsed.urls, parsed.images, parsed.notes),
        "incident_created": False,
    }
