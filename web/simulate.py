"""What would happen if an alert came at a moment and nobody reacted: nothing is written, nobody is told.

Answered by the functions that page, see tocsin/simulation.py and pipeline/simulation.py.
"""

import time
from datetime import timedelta
from typing import Any

import msgspec
from flask import current_app
from marshmallow import fields

from models.services import Integration, Service
from models.teams import Team
from pipeline.simulation import LONGEST
from pipeline.sources import generic
from pipeline.sources.body import BadBody
from tocsin import simulation
from web import access, wire
from web.at_once import AtOnce
from web.auth import now, viewer
from web.errors import BadRequest, NotFound, bad
from web.rules_try import SOURCE
from web.shapes import AskedMoment, Flag, MaybeNumber, Moment, Number, Reference, Several, Shape, Text

# Whoever asks for very much is told as much as was found within so much of a processor's time.
LONGEST_S = 2.0
AT_ONCE = AtOnce(2)


class SimulateShape(Shape):
    """An alert: either `alert`, in the generic form, or `payload`, a body as `source` sends it (what the
    integration is for, unless it is said); where it comes in: `integration`, or a `service` that has only
    one for that source; and when: `at`, now if that is not said. Then nobody reacts `for` so many seconds,
    two hours if that is not said. `with_open`: what is open now is taken to be open then, and to go on by
    itself until then; else nothing is."""

    service = Reference()
    integration = Reference()
    at = AskedMoment()
    lasts = MaybeNumber(data_key="for", least=0, most=int(LONGEST.total_seconds()))
    alert = fields.Dict(allow_none=True)
    payload = fields.Dict(allow_none=True)
    source = Text(limit=64, validate=SOURCE)
    with_open = Flag()


class NamedShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class StageShape(Shape):
    stage = Text(dump_only=True)
    reason = Text(dump_only=True)


class SimulatedAlertShape(Shape):
    """As the recorder tells an alert: its `road` stage by stage, and what each of the `rules` that was looked
    at said. `incident` is a place among the incidents, from 1."""

    message = Text(dump_only=True)
    alert_type = Text(dump_only=True)
    entity_id = Text(dump_only=True)
    suppressed = Flag(dump_only=True)
    road = Several(fields.Nested(StageShape), dump_only=True)
    rules = Several(fields.Dict(), dump_only=True)
    incident = Number(dump_only=True, allow_none=True)
    incident_created = Flag(dump_only=True)


class HappeningShape(Shape):
    """`kind` is road (an alert has come to the end of its road), opened (an incident has), told (somebody
    is), log (an entry of the incident's) or timer (one is due); `what` says it more closely. `after` is in
    seconds. Where somebody is told, `person` and `username` say who, `channel` and `contact` by what."""

    at = Moment(dump_only=True)
    after = fields.Float(dump_only=True)
    kind = Text(dump_only=True)
    what = Text(dump_only=True)
    why = Text(dump_only=True)
    incident = Number(dump_only=True, allow_none=True)
    person = Text(dump_only=True, allow_none=True)
    username = Text(dump_only=True, allow_none=True)
    channel = Text(dump_only=True, allow_none=True)
    contact = Text(dump_only=True, allow_none=True)


class SimulatedIncidentShape(Shape):
    """An incident as it is in the end; `incident_number` is null for one that is only imagined."""

    incident_number = Number(dump_only=True, allow_none=True)
    title = Text(dump_only=True)
    status = Text(dump_only=True)
    urgency = Text(dump_only=True)
    assigned_to = Text(dump_only=True, allow_none=True)
    creation_date = Moment(dump_only=True)
    resolved_date = Moment(dump_only=True, allow_none=True)


class FirstWordShape(Shape):
    username = Text(dump_only=True)
    person = Text(dump_only=True)
    email = Text(dump_only=True)
    at = Moment(dump_only=True)
    after = fields.Float(dump_only=True)


class SimulationShape(Shape):
    """All that would happen to the alerts, and to the incidents that they lead to or are about, from `at`
    until `until`, in order; `told` is everybody who would be told, with the first word to each. `goes_on_at`
    is when more would happen later, null if nothing would; `is_cut` whether there was more than is told:
    1,000 happenings at most, and what is found in two seconds."""

    at = Moment(dump_only=True)
    until = Moment(dump_only=True)
    service = fields.Nested(NamedShape, dump_only=True)
    integration = fields.Nested(NamedShape, dump_only=True)
    source = Text(dump_only=True)
    alerts = Several(fields.Nested(SimulatedAlertShape), dump_only=True)
    happenings = Several(fields.Nested(HappeningShape), dump_only=True)
    incidents = Several(fields.Nested(SimulatedIncidentShape), dump_only=True)
    told = Several(fields.Nested(FirstWordShape), dump_only=True)
    goes_on_at = Moment(dump_only=True, allow_none=True)
    is_cut = Flag(dump_only=True)
    warnings = Several(Text(), dump_only=True)


SIMULATE = SimulateShape()
SIMULATION = SimulationShape()


def run() -> dict[str, Any]:
    """Tell who would be told of an alert at any moment, by what, when and why; nothing is written"""
    asked = wire.body()
    if (asked.get("alert") is None) == (asked.get("payload") is None):
        bad("alert", "Give either an alert or a payload.")
    given = "alert" if asked.get("alert") is not None else "payload"
    if given == "alert" and asked.get("source") not in (None, "", generic.EXTENSION):
        bad("source", "It says which tool sends a payload; an alert has the generic form.")
    source = generic.EXTENSION if given == "alert" else asked.get("source") or None
    integration = _integration(asked, source)
    lasts = asked.get("lasts")
    at, with_open = asked.get("at") or now(), asked.get("with_open", False)
    if with_open and (at := simulation.of_present_minute(at, now())) < now():
        bad("at", "What is open now was not open then: ask without with_open.")
    question = simulation.Question(
        integration,
        source or simulation.source_of(integration),
        _body(given, asked[given]),
        at,
        simulation.USUAL if lasts is None else timedelta(seconds=lasts),
        with_open,
    )
    try:
        with AT_ONCE.one_of(viewer().account):
            until = time.thread_time() + LONGEST_S
            told = simulation.ask(question, lambda: time.thread_time() > until)
        return {**told, "warnings": simulation.warnings(current_app.config["SETTINGS"])}
    except BadBody as error:
        raise BadRequest({_within(given, field): why for field, why in error.errors.items()}) from None


def _body(given: str, value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        bad(given, "is nested too deeply")


def _within(given: str, field: str) -> str:
    return given if field == "body" else f"{given}.{field}"


def _integration(asked: dict[str, Any], source: str | None) -> Integration:
    """The integration that is named or, by its service and the source, meant; of a team in which the viewer
    may see what becomes of alerts."""
    if asked.get("integration"):
        joined = Integration.select(Integration, Service, Team).join(Service).join(Team)
        integration: Integration = _known("integration", joined, Integration, asked["integration"])
        access.require(viewer(), integration.service.team_id)
        if asked.get("service") not in (None, integration.service.unique_id):
            bad("integration", "It is not of this service.")
        return integration
    if not asked.get("service"):
        bad("service", "Give a service or an integration.")
    service = _known("service", Service.select(Service, Team).join(Team), Service, asked["service"])
    access.require(viewer(), service.team_id)
    found = simulation.ways_in(service, source)
    if len(found) != 1:
        names = ", ".join(row.name for row in found)
        bad("integration", f"Say which one: {names}." if found else "The service takes no alerts.")
    found[0].service = service
    return found[0]


def _known(field: str, joined: Any, table: Any, unique_id: str) -> Any:
    try:
        return access.find(joined.where(Team.account == viewer().account), table.unique_id, unique_id)
    except NotFound:
        bad(field, "There is none with this id.")
