"""What a property means, and what its numbers mean: the `description` of each property.

A field says it with `explain` (web/http/fields.py). SENTENCES is for names that mean the same everywhere.
"""

from collections.abc import Mapping

from marshmallow.fields import Field

from web.http.fields import Choice

# By the name of the field.
SENTENCES: Mapping[str, str] = {
    "acknowledged_date": "When the incident was acknowledged first; null: not yet.",
    "assigned_to": "The username of the assignee; null: nobody.",
    "color": "A color for user interfaces, as text.",
    "count": "The number of objects on all pages; null if they are not counted.",
    "created_at": "When the object was created.",
    "created_by": "The username of the person who created the object.",
    "creation_date": "When the object was created.",
    "description": "A text for people; it changes nothing in the processing.",
    "detail": "The answer of the other side, or the error.",
    "email": "The e-mail address of the person.",
    "entity_id": "What the alert is about. Alerts with the same entity_id join one open incident.",
    "escalation_policy": "The unique_id of the escalation policy; null: none.",
    "escalation_policy_ids": "Only incidents with one of these escalation policies, by unique_id.",
    "first_name": "The person's first name.",
    "incident": "The number of the incident.",
    "incident_number": "The number of the incident in the account, counted from 1.",
    "joining_date": "When the person became a member.",
    "last_name": "The person's last name.",
    "milliseconds": "The duration in milliseconds.",
    "name": "The name that people see. It need not be unique.",
    "next": "The URL of the next page; null on the last page.",
    "outcome": "`sent`, `retry` (another attempt follows) or `refused`.",
    "previous": "The URL of the previous page; null on the first page.",
    "priority_ids": "Only incidents with one of these priorities, by unique_id.",
    "private": "true if the team gives no permissions to all members of the account.",
    "resolved_date": "When the incident was resolved; null while it is open.",
    "results": "The objects on this page.",
    "rule_json": "A condition in JSON Logic, or a tree of the query builder. Empty: matches every alert.",
    "service": "The unique_id of the service.",
    "service_ids": "Only incidents of these services, by unique_id.",
    "sla": "The unique_id of the SLA; null: none.",
    "sla_ids": "Only incidents with one of these SLAs, by unique_id.",
    "status": "The present status.",
    "summary": "A text for people, with more details than the name or title.",
    "tag_ids": "Only incidents with one of these tags, by unique_id.",
    "team": "The unique_id of the team.",
    "team_ids": "Only incidents of these teams, by unique_id.",
    "team_priority": "The unique_id of the priority; null: none.",
    "title": "One line that people see.",
    "trace_id": "The trace_id of the request that sent the alert. It leads to the alert trace.",
    "type": "A constant for published clients.",
    "unique_id": "Identifies the object in paths and references.",
    "updated_at": "When the object was changed last.",
    "urgency": "Selects the notification rules by which people are notified.",
    "user": "The username of the person.",
    "user_ids": "Only incidents that are assigned to one of these users, by username.",
    "user_name": "The full name of the person.",
    "username": "The username of the person. It never changes.",
}


def describe_field(_: object, field: Field[object], **__: object) -> dict[str, object]:
    """Return the description of a field: its sentence, and the names of its numbers."""
    if isinstance(field.parent, Field):
        # The list around this item has the sentence.
        return {}
    sentence = field.metadata.get("description") or SENTENCES.get(field.name or "", "")
    text = " ".join(filter(None, (sentence, list_numbers(field))))
    return {"description": text} if text else {}


def list_numbers(field: Field[object]) -> str:
    """Return the numbers of an enumeration with their names as text; "" for other fields."""
    if not isinstance(field, Choice):
        return ""
    return ", ".join(f"{number} = {name}" for number, name in field.names.items()) + "."
