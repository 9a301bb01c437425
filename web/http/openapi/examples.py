"""Example values for each field of the description. The fields accept all of them."""

from typing import Any

import marshmallow
from marshmallow import Schema, validate

from web.http import fields

UUID = "8c3f5a9e-2d41-4b6e-9a57-1f0c6d2b7e34"
SHORT_ID = "uJVWfdAeoPDm3pk2gG2URn"
USERNAME = "39569d4b-6540-4b64-a086-6"
ADDRESS = "alice.doe@example.org"
MOMENT = "2026-03-04T12:00:00.000000Z"
LATER = "2026-03-04T20:00:00Z"
MONTHS_LATER = "2026-06-03T20:00:00Z"
# In the future for as long as this program will be used.
FAR = "2099-12-31T00:00:00Z"
RULE = '{"==": [{"var": "payload.kind"}, "database"]}'
LINK = {"link_url": "https://runbook.example.org/disk", "link_text": "Runbook"}

# By the name of the field, or by schema and field if the name has another meaning in that schema.
EXAMPLES: dict[str, object] = {
    "account_identifier": "k7x2q",
    "acknowledge_time": 300,
    "acknowledgement_timeout": 900,
    "alert_type": "3",
    "amazon_link": None,
    "application": "0d2b8f3e-6a5c-4c7e-9f61-2f0f7c1f5a10",
    "assigned_to_name": "Alice Doe",
    "author_name": "Alice Doe",
    "availability_plan_id": 1,
    "categories": "Monitoring",
    "channel": "email",
    "collation_time": 5,
    "color": "red",
    "conditions": "{}",
    "contact": UUID,
    "count": 1,
    "create_incidents_for": 1,
    "custom_role_details": {"name": "Auditor"},
    "delay": 5,
    "description": "The databases of the shop",
    "documentation_link": "",
    "due_in": 60,
    "duration": 28_800,
    "end_time": LATER,
    "entity_id": "db1-disk",
    "ep_rule": UUID,
    "every": 86_400,
    "extension": "generic",
    "first_name": "Alice",
    "full_name": "Alice Doe",
    "icon_url": "",
    "images": {"image_src": "https://graphs.example.org/1.png", "image_url": "", "image_text": "Disk"},
    "incident": 1,
    "incident_key": SHORT_ID,
    "incident_number": 1,
    "integration_key": UUID,
    "is_child_incident": False,
    "last_name": "Doe",
    "logic": RULE,
    "members": [],
    "message": "Disk full on db1",
    "minutes": 60,
    "name": "Databases",
    "next": "https://tocsin.example.org/api/incidents/?page=2&page_size=10",
    "note": "Looking at it",
    "notes": {"note_title": "Runbook", "note_text": "Delete old log files"},
    "overridden_details": {USERNAME: [{"start_time": 1_772_625_600, "end_time": 1_772_629_200}]},
    "pattern": "critical",
    "payload": {"host": "db1", "kind": "database"},
    "postmortem_assignee": None,
    "postmortem_data": "<p>The disk was full.</p>",
    "previous": None,
    "private": False,
    "reason": "Named by step 1 of policy Databases.",
    "repeat_interval": 7,
    "resolve_time": 3_600,
    "rotation_end_time": LATER,
    "setup_instructions": "",
    "shift_length": 86_400,
    "start_delay": 5,
    "start_time_of_day": "09:00:00",
    "summary": "97 % of /var is used",
    "team": UUID,
    "team_name": "Payments",
    "time": -60,
    "to_date": LATER,
    "title": "Disk full on db1",
    "trace_id": UUID,
    "type": "",
    "unique_id": UUID,
    "urls": LINK,
    "user_name": "Alice Doe",
    "username": USERNAME,
    "value": "{{payload.host}}: {{message}}",
    "webhook_url": f"https://tocsin.example.org/api/integration/generic/{UUID}/",
    "AccountMemberSchema.role": 3,
    "AnalyticsFilterSchema.child_incident": "exclude",
    "AnalyticsFilterSchema.to_date": "2026-03-31",
    "AlertBodySchema.alert_type": "critical",
    "AlertBodySchema.stakeholder_comms": {"subject": "The shop is slow", "body": "We are working on it."},
    "AlertBodySchema.stakeholders": {"emails": ["press@example.org"]},
    "AlertBodySchema.urls": LINK["link_url"],
    "OutboundTargetSchema.url": "https://tickets.example.org/hooks/tocsin",
    "ActionSchema.action_type": 8,
    "AlertSchema.unique_id": SHORT_ID,
    "ApplicationSchema.is_active": 1,
    "ContactSchema.value": ADDRESS,
    "NewContactSchema.value": ADDRESS,
    "SlaEscalationSchema.type": 1,
    "EventSchema.unique_id": SHORT_ID,
    "FlatMemberSchema.role": 3,
    "IncidentSchema.unique_id": SHORT_ID,
    "InviteeSchema.role": 3,
    "MaintenanceSchema.repeat_until": MONTHS_LATER,
    "MappingSchema.alert_type": "check.state",
    "MappingSchema.at": "check.time",
    "MappingSchema.defaults": {"message": "A check without a name"},
    "MappingSchema.entity_id": "check.id",
    "MappingSchema.levels": {"bad": "critical"},
    "MappingSchema.message": "check.output",
    "MappingSchema.summary": "check.details",
    "MappingSchema.url": "check.link",
    "IncidentNoteSchema.unique_id": SHORT_ID,
    "ListedIncidentSchema.unique_id": SHORT_ID,
    "OpenedIncidentSchema.unique_id": SHORT_ID,
    "PostmortemSchema.status": "Draft",
    "ShownPostmortemSchema.status": "Draft",
    "ReassignSchema.reason": "Bob knows the databases",
    "ResponderSchema.unique_id": SHORT_ID,
    "SimulateSchema.alert": {"message": "Disk full on db1", "alert_type": "critical"},
    "SimulateSchema.with_open": False,
    "SlaSchema.team": 1,
    "SourceSetupSchema.kind": "json",
    "SourceSetupSchema.secret": "a-secret-of-the-tool",
    "SourceSetupSchema.topics": "arn:aws:sns:eu-west-1:123456789012:alarms",
    "StageSchema.reason": "The alert opens an incident.",
    "StatusSchema.status": "completed",
    "TargetSchema.target_id": USERNAME,
    "TargetSchema.target_type": 2,
    "NewTokenSchema.expires_at": FAR,
    "TokenSchema.expires_at": FAR,
    "TestMessageSchema.reason": "Alice asked for a test message.",
    "TimelineEntrySchema.reason": "Acknowledged by Alice.",
}

# Fields that the example of a request leaves out, because the operation accepts them only without another
# field of the example, or only for another kind of object.
LEFT_OUT = frozenset(
    {
        "ActionSchema.assign_to",
        "ActionSchema.escalation_policy",
        "ActionSchema.key",
        "ActionSchema.schedule",
        "ActionSchema.sla",
        "ActionSchema.task_template",
        "ActionSchema.team_priority",
        "ConditionSchema.alert_field",
        "DryRunSchema.alert",
        "MappingSchema.level",
        "ReassignSchema.escalation_policy",
        "ResponderSchema.escalation_policy",
        "SimulateSchema.payload",
        "SimulateSchema.source",
        "SnoozeSchema.until",
        "SourceSetupSchema.accepts_get",
        "SourceSetupSchema.has_alert_access",
        "SourceSetupSchema.mapping",
        "SourceSetupSchema.topics",
    }
)

# By the class of the field, subclasses first.
KIND_EXAMPLES: tuple[tuple[type[marshmallow.fields.Field], object], ...] = (
    (fields.Username, USERNAME),
    (fields.Reference, UUID),
    (fields.Uuid, UUID),
    (fields.QueryDay, "2026-03-04"),
    (fields.Moment, MOMENT),
    (fields.Date, "2026-03-04"),
    (fields.TeamLabel, UUID),
    (fields.TimeZone, "Europe/Berlin"),
    (fields.RuleJson, RULE),
    (fields.Email, ADDRESS),
    (fields.Boolean, True),
    (marshmallow.fields.Float, 1.5),
    (marshmallow.fields.Dict, {"host": "db1"}),
)


def build_example(schema: Schema, *, for_request: bool) -> dict[str, object]:
    """Build an example object of this schema, for a request or for an answer."""
    members = schema.load_fields if for_request else schema.dump_fields
    return {
        field.data_key or name: build_field_example(field, for_request=for_request)
        for name, field in members.items()
        if not (for_request and f"{type(schema).__name__}.{name}" in LEFT_OUT)
    }


def build_field_example(field: marshmallow.fields.Field[Any], *, for_request: bool) -> object:
    if isinstance(field, marshmallow.fields.List):
        return [build_field_example(field.inner, for_request=for_request)]
    if isinstance(field, marshmallow.fields.Nested):
        nested = build_example(field.schema, for_request=for_request)
        return [nested] if field.many else nested
    known = find_example(field)
    if known is not None and _is_allowed(field, known[0]):
        return known[0]
    for kind, example in KIND_EXAMPLES:
        if isinstance(field, kind):
            return example
    return _find_allowed(field)


def find_example(field: marshmallow.fields.Field[Any]) -> tuple[object] | None:
    """Return the example for this field's name in a tuple, because the example can be None.

    An item of a list has the name of the list. Return None if there is no example.
    """
    while isinstance(field.parent, marshmallow.fields.Field):
        field = field.parent
    for key in (f"{type(field.parent).__name__}.{field.name}", field.name):
        if key in EXAMPLES:
            return (EXAMPLES[key],)
    return None


def _is_allowed(field: marshmallow.fields.Field[Any], value: object) -> bool:
    """Return whether the value has the field's type: the same name can mean a number or an id."""
    if isinstance(field, marshmallow.fields.Integer):
        return isinstance(value, int)
    if isinstance(field, fields.Moment):
        return value in (LATER, MONTHS_LATER, FAR)
    if isinstance(field, fields.Boolean):
        return isinstance(value, bool)
    if isinstance(field, fields.Username | fields.Date):
        return False
    return isinstance(value, str) or not isinstance(field, marshmallow.fields.String | fields.Reference)


def _find_allowed(field: marshmallow.fields.Field[Any]) -> object:
    """Return a value that the field's validators allow."""
    for rule in field.validators:
        if isinstance(rule, validate.OneOf):
            return next(iter(rule.choices))
        if isinstance(rule, validate.Range):
            return min(max(1, rule.min), rule.max)
    return (
        1
        if isinstance(field, marshmallow.fields.Integer)
        else (field.name or "").replace("_", " ").capitalize()
    )
