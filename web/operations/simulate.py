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

from models.domain.enums import IntegrationType
from models.reports.delivery_problems import list_delivery_problems
from models.tables.services import Integration, Service
from models.tables.teams import Team
from pipeline.simulation.simulate import MAX_DURATION
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody
from web.http import access, serialization
from web.http.access import Row
from web.http.auth import Viewer, now, operation, viewer
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
    explain,
)
from web.operations import run_simulation
from web.rules.dry_run import SOURCE
from web.services.integrations import INTEGRATIONS

# CPU time of one simulation, in seconds. A longer simulation is truncated.
MAX_CPU_S = 2.0
CONCURRENCY = ConcurrencyLimit(2, "simulate")


class SimulateSchema(Schema):
    """The alert: either `alert`, in the generic form, or `payload`, a body as a tool sends it."""

    service = Reference(
        metadata=explain(
            "The unique_id of the service, if it has only one integration for `source`; null: see"
            " `integration`."
        )
    )
    integration = Reference(
        metadata=explain("The unique_id of the integration that gets the alert; null: see `service`.")
    )
    at = QueryMoment(metadata=explain("When the alert comes; null: now."))
    duration = OptionalNumber(
        data_key="for",
        min_value=0,
        max_value=int(MAX_DURATION.total_seconds()),
        metadata=explain("Seconds in which nobody reacts; null: two hours."),
    )
    alert = fields.Dict(
        allow_none=True, metadata=explain("An alert in the generic form, instead of `payload`.")
    )
    payload = fields.Dict(
        allow_none=True, metadata=explain("A body as `source` sends it, instead of `alert`.")
    )
    source = Text(
        limit=64,
        validate=SOURCE,
        metadata=explain("The application that sends the body; empty: that of the integration."),
    )
    with_open = Boolean(metadata=explain("true: the incidents that are open now take part; default: false."))


class NameIdSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class StageSchema(Schema):
    stage = Text(dump_only=True, metadata=explain("The stage of the pipeline."))
    reason = Text(dump_only=True, metadata=explain("What the stage decided and why, as a sentence."))


class SimulatedAlertSchema(Schema):
    """An alert as in the alert trace."""

    message = Text(dump_only=True, metadata=explain("What happened, in one line."))
    alert_type = Text(dump_only=True, metadata=explain("The name of the level, for example `critical`."))
    entity_id = Text(dump_only=True)
    suppressed = Boolean(
        dump_only=True, metadata=explain("true: the alert opens no incident and notifies nobody.")
    )
    stages = List(
        fields.Nested(StageSchema),
        dump_only=True,
        metadata=explain("What each stage of the pipeline decides."),
    )
    rules = List(fields.Dict(), dump_only=True, metadata=explain("The results of the evaluated rules."))
    incident = Number(
        dump_only=True,
        allow_none=True,
        metadata=explain("The place of its incident in `incidents`, from 1; null: none."),
    )
    incident_created = Boolean(dump_only=True, metadata=explain("true: the alert opens the incident."))


class SimulatedEventSchema(Schema):
    """An event of the simulation. Only the kind `notified` has a person."""

    at = Moment(dump_only=True, metadata=explain("When it happens."))
    after = fields.Float(dump_only=True, metadata=explain("Seconds after the alert."))
    kind = Text(
        dump_only=True,
        metadata=explain(
            "`pipeline` (the alert is processed), `opened` (an incident), `notified` (a person),"
            " `log` or `timer`."
        ),
    )
    what = Text(dump_only=True, metadata=explain("A short name of what happens."))
    reason = Text(dump_only=True, metadata=explain("Why it happens, as a sentence."))
    incident = Number(
        dump_only=True,
        allow_none=True,
        metadata=explain("The place of the incident in `incidents`, from 1; null: none."),
    )
    person = Text(
        dump_only=True, allow_none=True, metadata=explain("The full name of the notified person; else null.")
    )
    username = Text(
        dump_only=True, allow_none=True, metadata=explain("The username of the notified person; else null.")
    )
    channel = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The channel, for example `email`; null: nobody is notified."),
    )
    contact = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The name of the contact; null: nobody is notified."),
    )


class SimulatedIncidentSchema(Schema):
    """An incident at the end of the simulation."""

    incident_number = Number(
        dump_only=True,
        allow_none=True,
        metadata=explain("The number of an incident that is open now; null: the simulation opened it."),
    )
    title = Text(dump_only=True, metadata=explain("What is wrong, in one line."))
    status = Text(
        dump_only=True, metadata=explain("The status at the end: `triggered`, `acknowledged` or `resolved`.")
    )
    urgency = Text(dump_only=True, metadata=explain("`low` or `high`."))
    assigned_to = Text(
        dump_only=True, allow_none=True, metadata=explain("The full name of the assignee; null: nobody.")
    )
    creation_date = Moment(dump_only=True)
    resolved_date = Moment(dump_only=True, allow_none=True)


class FirstNotificationSchema(Schema):
    username = Text(dump_only=True)
    person = Text(dump_only=True, metadata=explain("The full name of the person."))
    email = Text(dump_only=True)
    at = Moment(dump_only=True, metadata=explain("When the person is notified first."))
    after = fields.Float(dump_only=True, metadata=explain("Seconds after the alert."))


class SimulationSchema(Schema):
    """The events for the alerts, and for the incidents that they open or join."""

    at = Moment(dump_only=True, metadata=explain("When the alert comes."))
    until = Moment(dump_only=True, metadata=explain("The end of the simulated time."))
    service = fields.Nested(NameIdSchema, dump_only=True, metadata=explain("The service."))
    integration = fields.Nested(
        NameIdSchema, dump_only=True, metadata=explain("The integration that gets the alert.")
    )
    source = Text(dump_only=True, metadata=explain("The application that sends the body."))
    alerts = List(
        fields.Nested(SimulatedAlertSchema), dump_only=True, metadata=explain("What becomes of each alert.")
    )
    simulated_events = List(
        fields.Nested(SimulatedEventSchema), dump_only=True, metadata=explain("What happens, in order.")
    )
    incidents = List(
        fields.Nested(SimulatedIncidentSchema), dump_only=True, metadata=explain("The incidents at the end.")
    )
    notified = List(
        fields.Nested(FirstNotificationSchema),
        dump_only=True,
        metadata=explain("Who is notified, with the first notification to each person."),
    )
    continues_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When the next thing would happen after `until`; null: nothing."),
    )
    is_truncated = Boolean(
        dump_only=True, metadata=explain("true: stopped early, after 1,000 events or two seconds.")
    )
    warnings = List(
        Text(),
        dump_only=True,
        metadata=explain("Sentences about settings by which nobody would be notified."),
    )


SIMULATE = SimulateSchema()
SIMULATION = SimulationSchema()


def run() -> dict[str, object]:
    """Simulate an alert. The answer says who would be notified, when, by which contact and why."""
    return simulate_alert(viewer(), serialization.REQUEST_BODY)


def list_for_simulation(who: Viewer, most: int) -> list[tuple[str, str]]:
    """Return unique_id and name of the integrations for which the viewer may simulate an alert."""
    simulated = access.select_permitted_teams(who, simulate_alert.permission)
    rows = INTEGRATIONS.select_visible(who).select(Integration.unique_id, Integration.name, Service.name)
    rows = rows.join(Service).where(
        Service.team.in_(simulated), Integration.integration_type == IntegrationType.ALERT
    )
    found = rows.order_by(Service.name, Integration.name, Integration.id).limit(most).tuples()
    return [(unique_id, f"{service}: {name}") for unique_id, name, service in found]


@operation("incident_read")
def simulate_alert(who: Viewer, body: object) -> dict[str, object]:
    """Return what would happen to the alert of a body."""
    values = serialization.load(SIMULATE, body)
    if (values.get("alert") is None) == (values.get("payload") is None):
        reject("alert", "Give either an alert or a payload.")
    form = "alert" if values.get("alert") is not None else "payload"
    if form == "alert" and values.get("source") not in (None, "", generic.EXTENSION):
        reject("source", "Only a payload has a source; an alert always has the generic form.")
    source = generic.EXTENSION if form == "alert" else values.get("source") or None
    integration = _find_integration(who, values, source)
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
        with CONCURRENCY.acquire(who.account):
            until = time.thread_time() + MAX_CPU_S
            is_gone = start_client_check()
            result = run_simulation.run_simulation(question, lambda: is_gone() or time.thread_time() > until)
        return {
            **result,
            "warnings": list_delivery_problems(current_app.config["SETTINGS"], who.account, now()),
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


def _find_integration(who: Viewer, values: dict[str, Any], source: str | None) -> Integration:
    """Return the named integration, or the only integration of the service for this source.

    Forbidden if the viewer may not read the incidents of its team.
    """
    if values.get("integration"):
        joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
        integration: Integration = _find(who, "integration", joined, Integration, values["integration"])
        access.require_permission(who, integration.service.team_id)
        if values.get("service") not in (None, integration.service.unique_id):
            reject("integration", "This integration does not belong to this service.")
        return integration
    if not values.get("service"):
        reject("service", "Give a service or an integration.")
    service = _find(who, "service", Service.select(Service, Team).join(Team), Service, values["service"])
    access.require_permission(who, service.team_id)
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


def _find(
    who: Viewer, field: str, joined: "peewee.ModelSelect[Row]", table: type[Row], unique_id: str
) -> Row:
    try:
        return access.find(joined.where(Team.account == who.account), table.unique_id, unique_id)
    except NotFound:
        reject(field, f"The account has no {field} with this id.")
