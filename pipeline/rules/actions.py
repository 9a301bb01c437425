"""The actions of a matching alert rule: one function for each line of action_table.py. Contract section 4.2.

A function has the name that its action has in the alert trace. It takes the alert as earlier rules and
actions changed it, and returns a Change. An action that names an object that does not exist changes nothing,
and its note says so. An action can raise BudgetExceeded, and no other error.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from models.domain import identity
from models.domain.enums import AlertType, Urgency
from models.domain.facts import LaneFacts, PersonFacts, Reference, ReferenceMap
from models.domain.reasons import Reason, make_reason
from models.domain.values import Value
from pipeline.alert import Alert, get_urgency
from pipeline.rules import templates
from pipeline.rules.conditions import STEPS, Budget, Subject
from pipeline.rules.conditions.literals import ALERT_TYPES, URGENCIES, build_code_reader
from pipeline.sources.reading.cleaning import clean_entity_id, clean_line, clean_text
from schedules.escalation.targets import get_people_on_call

# Limits for one alert: nobody reads an incident with more notes, tags or tasks.
MAX_NOTES = 50
MAX_TAGS = 50
MAX_TASKS = 50
MAX_NOTE_LENGTH = 16 * 1024
# Steps of an alert's budget to find out who is on call by a schedule.
ON_CALL_STEPS = 2_000
# Items of a list that an action copies, for each step of an alert's budget.
ITEMS_PER_STEP = 5

Action = Mapping[str, Any]
T = TypeVar("T")


class Change(Value, frozen=True):
    """The alert after an action, and the changed value before and after it, for people.

    `note` says why nothing changed, or not everything.
    """

    alert: Alert
    before: str | None = None
    after: str | None = None
    note: Reason | None = None


class ActionContext(Value, frozen=True):
    """What an action reads besides the alert."""

    facts: LaneFacts
    subject: Subject
    budget: Budget


def get_reference(action: Action, field: str = "value") -> str:
    """Return the ID in a field of an action or, if the field is empty, in its value."""
    return str(action.get(field) or action.get("value") or "").strip()


read_level = build_code_reader(ALERT_TYPES)
_urgency_code = build_code_reader(URGENCIES)


def change_alert_type(alert: Alert, action: Action, context: ActionContext) -> Change:
    try:
        level = AlertType(int(read_level(action.get("value"))))
    except ValueError as error:
        return Change(alert, note=make_reason("value_invalid", detail=str(error)))
    changed = alert.with_changes(alert_type=level)
    return Change(changed, alert.alert_type.name.lower(), level.name.lower())


def add_note(alert: Alert, action: Action, context: ActionContext) -> Change:
    text = clean_text(_render(action, context), MAX_NOTE_LENGTH)
    if not text:
        return Change(alert, note=make_reason("template_empty", field="note"))
    if len(alert.options.notes) >= MAX_NOTES:
        return Change(alert, note=make_reason("limit_reached", limit=MAX_NOTES, things="notes"))
    return Change(alert.with_options(notes=(*alert.options.notes, text)), None, text)


def suppress(alert: Alert, action: Action, context: ActionContext) -> Change:
    return Change(alert.with_changes(suppressed=True), _describe_suppressed(alert.suppressed), "suppressed")


def _describe_suppressed(suppressed: bool) -> str:
    return "suppressed" if suppressed else "not suppressed"


def route_to_escalation_policy(alert: Alert, action: Action, context: ActionContext) -> Change:
    policies = context.facts.references.policies
    return _assign_object(alert, action, context, "escalation_policy", policies, "escalation policy")


def assign_sla(alert: Alert, action: Action, context: ActionContext) -> Change:
    return _assign_object(alert, action, context, "sla", context.facts.references.slas, "SLA")


def assign_priority(alert: Alert, action: Action, context: ActionContext) -> Change:
    priorities = context.facts.references.priorities
    return _assign_object(alert, action, context, "team_priority", priorities, "priority")


def _assign_object(
    alert: Alert,
    action: Action,
    context: ActionContext,
    name: str,
    objects: ReferenceMap,
    noun: str,
) -> Change:
    """Set an incident option; the action's field and the service's default have the same name."""
    found = objects.get(get_reference(action, name))
    if found is None:
        return Change(alert, note=make_reason("no_such_thing", noun=noun))
    before = getattr(alert.options, name) or getattr(context.facts.service, name)
    return Change(alert.with_options(**{name: found.row}), objects.get_name(before), found.name)


def assign_user(alert: Alert, action: Action, context: ActionContext) -> Change:
    person = context.facts.config.people.get(get_reference(action, "assign_to"))
    if person is None:
        return Change(alert, note=make_reason("no_such_thing", noun="user"))
    return _assign_person(alert, person, context)


def assign_schedule(alert: Alert, action: Action, context: ActionContext) -> Change:
    """Assign the first person who is on call by a schedule when the alert is accepted."""
    reference = get_reference(action, "schedule")
    schedule = context.facts.references.schedules.get(reference)
    if schedule is None:
        return Change(alert, note=make_reason("no_such_thing", noun="schedule"))
    context.budget.spend(STEPS, ON_CALL_STEPS)
    first = next(iter(get_people_on_call(reference, context.facts.config, alert.accepted_at)), None)
    if first is None:
        return Change(alert, note=make_reason("nobody_on_call", schedule=schedule.name))
    return _assign_person(alert, first, context)


def _assign_person(alert: Alert, person: PersonFacts, context: ActionContext) -> Change:
    before = context.facts.config.people.get(alert.options.assigned_to or "")
    changed = alert.with_options(assigned_to=person.username)
    return Change(changed, before.name if before else None, person.name)


def change_urgency(alert: Alert, action: Action, context: ActionContext) -> Change:
    try:
        urgency = Urgency(int(_urgency_code(action.get("value"))))
    except ValueError as error:
        return Change(alert, note=make_reason("value_invalid", detail=str(error)))
    before = get_urgency(alert, context.facts)
    return Change(alert.with_options(urgency=urgency), before.name.lower(), urgency.name.lower())


def change_message(alert: Alert, action: Action, context: ActionContext) -> Change:
    text = clean_line(_render(action, context))
    if not text:
        return Change(alert, note=make_reason("template_empty", field="message"))
    return Change(alert.with_changes(message=text), alert.message, text)


def change_summary(alert: Alert, action: Action, context: ActionContext) -> Change:
    text = clean_text(_render(action, context))
    return Change(alert.with_changes(summary=text), alert.summary, text)


def change_entity_id(alert: Alert, action: Action, context: ActionContext) -> Change:
    """Set the entity_id from a template. An empty template gives each alert a new unique ID.

    A template with an empty result changes nothing. Otherwise unrelated alerts would become one entity.
    """
    template = str(action.get("value") or "")
    if not template.strip():
        new_id = identity.make_unique_entity_id(alert.event_id)
        return Change(alert.with_changes(entity_id=new_id), alert.entity_id, new_id)
    text = identity.limit_entity_id(clean_entity_id(_render(action, context)))
    if not text:
        return Change(alert, note=make_reason("template_empty", field="entity_id"))
    return Change(alert.with_changes(entity_id=text), alert.entity_id, text)


def hash_entity_id(alert: Alert, action: Action, context: ActionContext) -> Change:
    digest = hashlib.sha256(alert.entity_id.encode("utf-8", "replace")).hexdigest()
    return Change(alert.with_changes(entity_id=digest), alert.entity_id, digest)


def add_tags(alert: Alert, action: Action, context: ActionContext) -> Change:
    """Add tags by ID or, for placeholders, by name in any case."""
    tags = context.facts.references.tags
    requested = [text.strip() for text in _render(action, context).split(",") if text.strip()]
    # Measured: 0.4 microseconds to look up a name that no tag has.
    context.budget.spend(STEPS, 2 * len(requested))
    found = [tags.find(text) for text in requested]
    rows = [tag.row for tag in found if tag is not None]
    missing = found.count(None)
    note = None if requested else make_reason("no_tag_named")
    if missing:
        note = make_reason("tags_missing", missing=missing, requested=len(requested))
    names = ", ".join(tag.name for tag in found if tag is not None)
    combined = _combine(alert.options.tags, rows, context.budget)
    if len(combined) > MAX_TAGS:
        return Change(alert, note=make_reason("limit_reached", limit=MAX_TAGS, things="tags"))
    return Change(alert.with_options(tags=combined), None, names or None, note)


def assign_role(alert: Alert, action: Action, context: ActionContext) -> Change:
    people = context.facts.config.people
    role = context.facts.references.roles.get(str(action.get("key") or "").strip().lower())
    person = people.get(get_reference(action))
    if role is None:
        return Change(alert, note=make_reason("no_such_thing", noun="incident role"))
    if person is None:
        return Change(alert, note=make_reason("no_such_thing", noun="user"))
    # They are copied twice, and compared.
    context.budget.spend(STEPS, 2 * len(alert.options.roles) // ITEMS_PER_STEP)
    roles = dict(alert.options.roles)
    before = people.get(roles.get(role.row, ""))
    changed = alert.with_options(roles=tuple({**roles, role.row: person.username}.items()))
    return Change(
        changed, _format_role(role, before.name) if before else None, _format_role(role, person.name)
    )


def _format_role(role: Reference, name: str) -> str:
    return f"{role.name}: {name}"


def create_task(alert: Alert, action: Action, context: ActionContext) -> Change:
    text = clean_text(_render(action, context), MAX_NOTE_LENGTH)
    if not text:
        return Change(alert, note=make_reason("template_empty", field="task"))
    if len(alert.options.tasks) >= MAX_TASKS:
        return Change(alert, note=make_reason("limit_reached", limit=MAX_TASKS, things="tasks"))
    return Change(alert.with_options(tasks=(*alert.options.tasks, text)), None, text)


def apply_task_template(alert: Alert, action: Action, context: ActionContext) -> Change:
    found = context.facts.references.task_templates.get(get_reference(action, "task_template"))
    if found is None:
        return Change(alert, note=make_reason("no_such_thing", noun="task template"))
    combined = _combine(alert.options.task_templates, (found.row,), context.budget)
    return Change(alert.with_options(task_templates=combined), None, found.name)


def add_responder(alert: Alert, action: Action, context: ActionContext) -> Change:
    requested, options, references = get_reference(action).lower(), alert.options, context.facts.references
    person, policy = context.facts.config.people.get(requested), references.policies.get(requested)
    if person is not None:
        users = _combine(options.responders, (person.username,), context.budget)
        return Change(alert.with_options(responders=users), None, person.name)
    if policy is not None:
        policies = _combine(options.responder_policies, (policy.row,), context.budget)
        return Change(alert.with_options(responder_policies=policies), None, policy.name)
    schedule = references.schedules.get(requested)
    if schedule is not None:
        context.budget.spend(STEPS, ON_CALL_STEPS)
        on_call = get_people_on_call(requested, context.facts.config, alert.accepted_at)
        if not on_call:
            return Change(alert, note=make_reason("nobody_on_call", schedule=schedule.name))
        users = _combine(options.responders, (one.username for one in on_call), context.budget)
        return Change(alert.with_options(responders=users), None, ", ".join(one.name for one in on_call))
    return Change(alert, note=make_reason("no_such_thing", noun="user, escalation policy or schedule"))


def delay_notifications(alert: Alert, action: Action, context: ActionContext) -> Change:
    text = str(action.get("value") or "0").strip()
    if not text.isdecimal() or len(text) > 6:
        return Change(alert, note=make_reason("delay_invalid"))
    return Change(alert.with_options(delay_s=int(text)), f"{alert.options.delay_s} s", f"{int(text)} s")


def _combine(before: tuple[T, ...], added: Iterable[T], budget: Budget) -> tuple[T, ...]:
    """Return both without duplicates, those from before first. Raises BudgetExceeded."""
    budget.spend(STEPS, len(before) // ITEMS_PER_STEP)
    return tuple(dict.fromkeys((*before, *added)))


def _render(action: Action, context: ActionContext) -> str:
    return templates.render(str(action.get("value") or ""), context.subject, context.budget)
