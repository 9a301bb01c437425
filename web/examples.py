"""What each field of the interface could hold, for its description: plausible, and always allowed there."""

from typing import Any

from marshmallow import Schema, fields, validate

from web import shapes

UUID = "8c3f5a9e-2d41-4b6e-9a57-1f0c6d2b7e34"
SHORT_ID = "uJVWfdAeoPDm3pk2gG2URn"
USERNAME = "39569d4b-6540-4b64-a086-6"
ADDRESS = "alice@example.org"
MOMENT = "2026-03-04T12:00:00.000000Z"
LATER = "2026-03-04T20:00:00Z"
RULE = '{"==": [{"var": "payload.kind"}, "database"]}'
LINK = {"link_url": "https://runbook.example.org/disk", "link_text": "Runbook"}

# By the name of the field, or by shape and field where the same name means something else there.
NAMED: dict[str, Any] = {
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
    "description": "What there is to know about it",
    "documentation_link": "",
    "due_in": 60,
    "duration": 28_800,
    "end_time": LATER,
    "entity_id": "db1-disk",
    "ep_rule": UUID,
    "every": 86_400,
    "extension": "generic",
    "first_name": "Alice",
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
    "notes": {"note_title": "Runbook", "note_text": "Delete what is old"},
    "overridden_details": {USERNAME: [{"start_time": 1_772_625_600, "end_time": 1_772_629_200}]},
    "pattern": "critical",
    "payload": {"host": "db1", "kind": "database"},
    "postmortem_assignee": None,
    "postmortem_data": "<p>The disk was full.</p>",
    "previous": None,
    "private": False,
    "reason": "asked for by Alice",
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
    "AlertBodyShape.alert_type": "critical",
    "AlertBodyShape.urls": LINK["link_url"],
    "AlertShape.unique_id": SHORT_ID,
    "ContactShape.value": ADDRESS,
    "EscalationShape.type": 1,
    "EventShape.unique_id": SHORT_ID,
    "IncidentShape.unique_id": SHORT_ID,
    "IncidentNoteShape.unique_id": SHORT_ID,
    "ListedShape.unique_id": SHORT_ID,
    "OpenedShape.unique_id": SHORT_ID,
    "PostmortemShape.status": "Draft",
    "ShownPostmortemShape.status": "Draft",
    "ResponderShape.unique_id": SHORT_ID,
    "SlaShape.team": 1,
    "StatusShape.status": "completed",
    "TargetShape.target_id": USERNAME,
    "TargetShape.target_type": 2,
}

# By the kind of the field, the narrower kinds first.
OF_KIND: tuple[tuple[type[fields.Field], Any], ...] = (
    (shapes.Username, USERNAME),
    (shapes.Reference, UUID),
    (shapes.Uuid, UUID),
    (shapes.Moment, MOMENT),
    (shapes.Day, "2026-03-04"),
    (shapes.TeamLabel, UUID),
    (shapes.TimeZone, "Europe/Berlin"),
    (shapes.RuleJson, RULE),
    (shapes.Email, ADDRESS),
    (shapes.Flag, True),
    (fields.Float, 1.5),
    (fields.Dict, {"host": "db1"}),
)


def of_shape(shape: Schema, *, asked: bool) -> dict[str, Any]:
    """An object of this shape as a request would hold it, or an answer."""
    held = shape.load_fields if asked else shape.dump_fields
    return {field.data_key or name: of_field(field, asked=asked) for name, field in held.items()}


def of_field(field: fields.Field[Any], *, asked: bool) -> Any:
    if isinstance(field, fields.List):
        return [of_field(field.inner, asked=asked)]
    if isinstance(field, fields.Nested):
        one = of_shape(field.schema, asked=asked)
        return [one] if field.many else one
    known = named(field)
    if known is not None and _may_hold(field, known[0]):
        return known[0]
    for kind, example in OF_KIND:
        if isinstance(field, kind):
            return example
    return _allowed(field)


def named(field: fields.Field[Any]) -> tuple[Any] | None:
    """The example for this name, in a tuple of its own, as it may be None. What stands in a list has the
    list's name.
    """
    while isinstance(field.parent, fields.Field):
        field = field.parent
    for owner in (f"{type(field.parent).__name__}.{field.name}", field.name):
        if owner in NAMED:
            return (NAMED[owner],)
    return None


def _may_hold(field: fields.Field[Any], value: Any) -> bool:
    """Whether it is the kind of thing that the field holds: the same name can stand for a number or an id."""
    if isinstance(field, fields.Integer):
        return isinstance(value, int)
    if isinstance(field, shapes.Moment):
        return value == LATER
    if isinstance(field, shapes.Username | shapes.Day | shapes.Flag):
        return False
    return isinstance(value, str) or not isinstance(field, fields.String | shapes.Reference)


def _allowed(field: fields.Field[Any]) -> Any:
    """Something of its kind that its rules allow."""
    for rule in field.validators:
        if isinstance(rule, validate.OneOf):
            return next(iter(rule.choices))
        if isinstance(rule, validate.Range):
            return min(max(1, rule.min), rule.max)
    return 1 if isinstance(field, fields.Integer) else (field.name or "").replace("_", " ").capitalize()
