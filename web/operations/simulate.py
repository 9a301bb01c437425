"""What would happen if an alert came at a moment and nobody reacted: nothing is written, nobody is told.

Answered by the functions that page, see web/operations/run_simulation.py and pipeline/simulation/simulate.py.
"""

import time
from datetime import timedelta
from typing import Any

import msgspec
from flask import current_app
from marshmallow import fields

from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.simulation.simulate import MAX_DURATION
from pipeline.sources import generic
from pipeline.sources.body import BadBody
from web.http import access, serialization
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.errors import BadRequest, NotFound, reject
from web.http.fields import (
    Boolean,
    List,
    Moment,
    Number,
    OptionalNumber,
    QueryMoment,
    Reference,
    Schema,
    Text,
)
from web.operations import run_simulation
from web.rules.dry_run import SOURCE

# Whoever asks for very much is told as much as was found within so much of a processor's time.
MAX_CPU_S = 2.0
CONCURRENCY = ConcurrencyLimit(2)


class SimulateSchema(Schema):
    """An alert: either `alert`, in the generic form, or `payload`, a body as `source` sends it (what the
    integration is for, unless it is said); where it comes in: `integration`, or a `service` that has only
    one for that source; and when: `at`, now if that is not said. Then nobody reacts `for` so many seconds,
    two hours if that is not said. `with_open`: what is open now is taken to be open then, and to go on by
    itself until then; else nothing is."""

    service = Reference()
    integration = Reference()
    at = QueryMoment()
    duration = OptionalNumber(data_key="for", min_value=0, max_value=int(MAX_DURATION.total_seconds()))
    alert = fields.Dict(allow_none=True)
    payload = fields.Dict(allow_none=True)
    source = Text(limit=64, validate=SOURCE)
    with_open = Boolean()


class NameIdSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class StageSchema(Schema):
    stage = Text(dump_only=True)
    reason = Text(dump_only=True)


class SimulatedAlertSchema(Schema):
    """As the recorder tells an alert: its `road` stage by stage, and what each of the `rules` that was looked
    at said. `incident` is a place among the incidents, from 1."""

    message = Text(dump_only=True)
    alert_type = Text(dump_only=True)
    entity_id = Text(dump_only=True)
    suppressed = Boolean(dump_only=True)
    stages = List(fields.Nested(StageSchema), dump_only=True)
    rules = List(fields.Dict(), dump_only=True)
    incident = Number(dump_only=True, allow_none=True)
    incident_created = Boolean(dump_only=True)


class SimulatedEventSchema(Schema):
    """`kind` is road (an alert has come to the end of its road), opened (an incident has), told (somebody
    is), log (an entry of the incident's) or timer (one is due); `what` says it more closely. `after` is in
    seconds. Where somebody is told, `person` and `username` say who, `channel` and `contact` by what."""

    at = Moment(dump_only=True)
    after = fields.Float(dump_only=True)
    kind = Text(dump_only=True)
    what = Text(dump_only=True)
    reason = Text(dump_only=True)
    incident = Number(dump_only=True, allow_none=True)
    person = Text(dump_only=True, allow_none=True)
    username = Text(dump_only=True, allow_none=True)
    channel = Text(dump_only=True, allow_none=True)
    contact = Text(dump_only=True, allow_none=True)


class SimulatedIncidentSchema(Schema):
    """An incident as it is in the end; `incident_number` is null for one that is only imagined."""

    incident_number = Number(dump_only=True, allow_none=True)
    title = Text(dump_only=True)
    status = Text(dump_only=True)
    urgency = Text(dump_only=True)
    assigned_to = Text(dump_only=True, allow_none=True)
    creation_date = Moment(dump_only=True)
    resolved_date = Moment(dump_only=True, allow_none=True)


class FirstNotificationSchema(Schema):
    username = Text(dump_only=True)
    person = Text(dump_only=True)
    email = Text(dump_only=True)
    at = Moment(dump_only=True)
    after = fields.Float(dump_only=True)


class SimulationSchema(Schema):
    """All that would happen to the alerts, and to the incidents that they lead to or are about, from `at`
    until `until`, in order; `told` is everybody who would be told, with the first word to each. `goes_on_at`
    is when more would happen later, null if nothing would; `is_cut` whether there was more than is told:
    1,000 happenings at most, and what is found in two seconds."""

    at = Moment(dump_only=True)
    until = Moment(dump_only=True)
    service = fields.Nested(NameIdSchema, dump_only=True)
    integration = fields.Nested(NameIdSchema, dump_only=True)
    source = Text(dump_only=True)
    alerts = List(fields.Nested(SimulatedAlertSchema), dump_only=True)
    simulated_events = List(fields.Nested(SimulatedEventSchema), dump_only=True)
    incidents = List(fields.Nested(SimulatedIncidentSchema), dump_only=True)
    notified = List(fields.Nested(FirstNotificationSchema), dump_only=True)
    continues_at = Moment(dump_only=True, allow_none=True)
    is_truncated = Boolean(dump_only=True)
    warnings = List(Text(), dump_only=True)


SIMULATE = SimulateSchema()
SIMULATION = SimulationSchema()


def run() -> dict[str, Any]:
    """Tell who would be told of an alert at any moment, by what, when and why; nothing is written"""
    values = serialization.read_body()
    if (values.get("alert") is None) == (values.get("payload") is None):
        reject("alert", "Give either an alert or a payload.")
    form = "alert" if values.get("alert") is not None else "payload"
    if form == "alert" and values.get("source") not in (None, "", generic.EXTENSION):
        reject("source", "It says which tool sends a payload; an alert has the generic form.")
    source = generic.EXTENSION if form == "alert" else values.get("source") or None
    integration = _find_integration(values, source)
    duration = values.get("duration")
    at, with_open = values.get("at") or now(), values.get("with_open", False)
    if with_open and (at := run_simulation.adjust_to_now(at, now())) < now():
        reject("at", "What is open now was not open then: ask without with_open.")
    question = run_simulation.SimulationRequest(
        integration,
        source or run_simulation.get_source(integration),
        _encode(form, values[form]),
        at,
        run_simulation.DEFAULT_DURATION if duration is None else timedelta(seconds=duration),
        with_open,
    )
    try:
        with CONCURRENCY.acquire(viewer().account):
            until = time.thread_time() + MAX_CPU_S
            result = run_simulation.run_simulation(question, lambda: time.thread_time() > until)
        return {**result, "warnings": run_simulation.list_warnings(current_app.config["SETTINGS"])}
    except BadBody as error:
        raise BadRequest({_prefix(form, field): why for field, why in error.errors.items()}) from None


def _encode(form: str, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        reject(form, "is nested too deeply")


def _prefix(form: str, field: str) -> str:
    return form if field == "body" else f"{form}.{field}"


def _find_integration(values: dict[str, Any], source: str | None) -> Integration:
    """The integration that is named or, by its service and the source, meant; of a team in which the viewer
    may see what becomes of alerts."""
    if values.get("integration"):
        joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
        integration: Integration = _find("integration", joined, Integration, values["integration"])
        access.require(viewer(), integration.service.team_id)
        if values.get("service") not in (None, integration.service.unique_id):
            reject("integration", "It is not of this service.")
        return integration
    if not values.get("service"):
        reject("service", "Give a service or an integration.")
    service = _find("service", Service.select(Service, Team).join(Team), Service, values["service"])
    access.require(viewer(), service.team_id)
    found = run_simulation.find_integrations(service, source)
    if len(found) != 1:
        names = ", ".join(row.name for row in found)
        reject("integration", f"Say which one: {names}." if found else "The service takes no alerts.")
    found[0].service = service
    return found[0]


def _find(field: str, joined: Any, table: Any, unique_id: str) -> Any:
    try:
        return access.find(joined.where(Team.account == viewer().account), table.unique_id, unique_id)
    except NotFound:
        reject(field, "There is none with this id.")
