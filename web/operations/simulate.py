"""Simulate an alert to which nobody reacts. A simulation writes nothing and notifies nobody.

It uses the same functions as real alerts: web/operations/run_simulation.py, pipeline/simulation/simulate.py.
"""

import time
from datetime import timedelta
from typing import Any

import msgspec
import peewee
from flask import current_app
from marshmallow import fields

from models.reports.delivery_problems import list_delivery_problems
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.simulation.simulate import MAX_DURATION
from pipeline.sources import generic
from pipeline.sources.body import BadBody
from web.http import access, serialization
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.concurrency_limit import ConcurrencyLimit, start_client_check
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

# CPU time of one simulation, in seconds. A longer simulation is truncated.
MAX_CPU_S = 2.0
CONCURRENCY = ConcurrencyLimit(2, "simulate")


class SimulateSchema(Schema):
    """The alert: either `alert`, in the generic form, or `payload`, a body as the tool `source` sends it.

    `source` is by default the tool of the integration. The alert arrives at `integration`, or at the only
    integration of `service` for this source, at the time `at` (default: now). Nobody reacts for `for` seconds
    (default: two hours). `with_open`: the incidents that are open now take part and continue until `at`.
    Without it, no incident is open.
    """

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
    """An alert as in the alert trace: its `stages` and the results of the evaluated `rules`.

    `incident` is a position in `incidents`, from 1.
    """

    message = Text(dump_only=True)
    alert_type = Text(dump_only=True)
    entity_id = Text(dump_only=True)
    suppressed = Boolean(dump_only=True)
    stages = List(fields.Nested(StageSchema), dump_only=True)
    rules = List(fields.Dict(), dump_only=True)
    incident = Number(dump_only=True, allow_none=True)
    incident_created = Boolean(dump_only=True)


class SimulatedEventSchema(Schema):
    """An event of the simulation; `what` has the details of its `kind`.

    Kinds: pipeline (an alert has passed the pipeline), opened (an incident was opened), notified (a person
    was notified), log (an entry in the incident's log), timer (a timer is due). `after` is in seconds. Only
    the kind notified has `person`, `username`, `channel` and `contact`.
    """

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
    """An incident at the end of the simulation. `incident_number` is null if the simulation opened it."""

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
    """The events from `at` until `until`, in order, for the alerts and the incidents that they open or join.

    `notified` lists the people who would be notified, with the first notification to each. `continues_at` is
    the time of the next event after `until`, null if there is none. `is_truncated`: the simulation stopped
    early, at 1,000 events or after two seconds.
    """

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


def run() -> dict[str, object]:
    """Simulate an alert: who would be notified, when, by which contact and why. Nothing is written."""
    values = serialization.read_body()
    if (values.get("alert") is None) == (values.get("payload") is None):
        reject("alert", "Give either an alert or a payload.")
    form = "alert" if values.get("alert") is not None else "payload"
    if form == "alert" and values.get("source") not in (None, "", generic.EXTENSION):
        reject("source", "Only a payload has a source; an alert always has the generic form.")
    source = generic.EXTENSION if form == "alert" else values.get("source") or None
    integration = _find_integration(values, source)
    duration = values.get("duration")
    at, with_open = values.get("at") or now(), values.get("with_open", False)
    if with_open and (at := run_simulation.adjust_to_now(at, now())) < now():
        reject("at", "Must not be in the past if with_open is true.")
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
            is_gone = start_client_check()
            result = run_simulation.run_simulation(question, lambda: is_gone() or time.thread_time() > until)
        return {
            **result,
            "warnings": list_delivery_problems(current_app.config["SETTINGS"], viewer().account, now()),
        }
    except BadBody as error:
        raise BadRequest({_prefix(form, field): why for field, why in error.errors.items()}) from None


def _encode(form: str, value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        reject(form, f"The {form} is nested too deeply.")


def _prefix(form: str, field: str) -> str:
    return form if field == "body" else f"{form}.{field}"


def _find_integration(values: dict[str, Any], source: str | None) -> Integration:
    """Return the named integration, or the only integration of the service for this source.

    Forbidden if the viewer may not read the incidents of its team.
    """
    if values.get("integration"):
        joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
        integration: Integration = _find("integration", joined, Integration, values["integration"])
        access.require_permission(viewer(), integration.service.team_id)
        if values.get("service") not in (None, integration.service.unique_id):
            reject("integration", "This integration does not belong to this service.")
        return integration
    if not values.get("service"):
        reject("service", "Give a service or an integration.")
    service = _find("service", Service.select(Service, Team).join(Team), Service, values["service"])
    access.require_permission(viewer(), service.team_id)
    found = run_simulation.find_integrations(service, source)
    if len(found) != 1:
        names = ", ".join(row.name for row in found)
        reject(
            "integration",
            f"The service has more than one. Give one of: {names}."
            if found
            else "The service accepts no alerts.",
        )
    found[0].service = service
    return found[0]


def _find(field: str, joined: "peewee.ModelSelect[Row]", table: type[Row], unique_id: str) -> Row:
    try:
        return access.find(joined.where(Team.account == viewer().account), table.unique_id, unique_id)
    except NotFound:
        reject(field, f"The account has no {field} with this id.")
