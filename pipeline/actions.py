"""What a matching alert rule does: one function for each type of action. Contract sections 3.10, 4.2.

Each takes the alert as the rules before it left it and answers with a Change. An action that names what
does not exist changes nothing and says so; no action ever fails.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from models.enums import AlertType, RuleAction, Urgency
from models.facts import LaneFacts, Named
from pipeline import identity, templates
from pipeline.alert import Alert
from pipeline.conditions import Subject
from pipeline.conditions.literals import ALERT_TYPES, URGENCIES, code_of
from pipeline.sources.cleaning import clean_entity_id, clean_line, clean_text
from schedules.targets import people_on_call

# The field of an action that holds the reference to an object, where it is not in `value` (contract 3.10).
REFERENCES: dict[RuleAction, str] = {
    RuleAction.ROUTE_TO_ESCALATION_POLICY: "escalation_policy",
    RuleAction.ASSIGN_SCHEDULE: "schedule",
    RuleAction.ASSIGN_USER: "assign_to",
    RuleAction.ASSIGN_SLA: "sla",
    RuleAction.ASSIGN_PRIORITY: "team_priority",
    RuleAction.APPLY_TASK_TEMPLATE: "task_template",
}

# An incident with more of them is none that anybody reads.
MOST_NOTES = 50
MOST_TAGS = 50
MOST_TASKS = 50
LONGEST_NOTE = 16 * 1024

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """The alert after an action, and what changed from and to, for people; `note` why nothing did."""

    alert: Alert
    before: str | None = None
    after: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What an action may look at besides the alert."""

    facts: LaneFacts
    subject: Subject


Act = Callable[[Alert, Action, Scene], Change]


def act(alert: Alert, action: Action, scene: Scene) -> Change:
    """The alert as this action leaves it."""
    return ACTIONS[RuleAction(action["action_type"])](alert, action, scene)


def reference_of(action: Action) -> str:
    """The id that an action refers to, in its typed field or, where that is empty, in its value."""
    name = REFERENCES.get(RuleAction(action["action_type"]), "value")
    return str(action.get(name) or action.get("value") or "").strip()


_level_code = code_of(ALERT_TYPES)
_urgency_code = code_of(URGENCIES)


def _change_alert_type(alert: Alert, action: Action, scene: Scene) -> Change:
    try:
        level = AlertType(int(_level_code(action.get("value"))))
    except ValueError as error:
        return Change(alert, note=str(error))
    changed = alert.but(alert_type=level)
    return Change(changed, alert.alert_type.name.lower(), level.name.lower())


def _add_note(alert: Alert, action: Action, scene: Scene) -> Change:
    text = clean_text(_filled(action, scene), LONGEST_NOTE)
    if not text:
        return Change(alert, note="the note came out empty")
    if len(alert.plan.notes) >= MOST_NOTES:
        return Change(alert, note=f"an alert brings {MOST_NOTES} notes at most")
    return Change(alert.wanting(notes=(*alert.plan.notes, text)), None, text)


def _suppress(alert: Alert, action: Action, scene: Scene) -> Change:
    return Change(alert.but(suppressed=True), _yes(alert.suppressed), "suppressed")


def _yes(suppressed: bool) -> str:
    return "suppressed" if suppressed else "not suppressed"


def _route(alert: Alert, action: Action, scene: Scene) -> Change:
    policies = scene.facts.nameable.policies
    found = policies.get(reference_of(action))
    if found is None:
        return Change(alert, note="without effect: there is no such escalation policy")
    before = alert.plan.escalation_policy or scene.facts.service.escalation_policy
    return Change(alert.wanting(escalation_policy=found.row), _name(policies, before), found.name)


def _name(of: Mapping[str, Named], row: int | None) -> str | None:
    return next((named.name for named in of.values() if named.row == row), None)


def _assign_user(alert: Alert, action: Action, scene: Scene) -> Change:
    people = scene.facts.directory.people
    person = people.get(reference_of(action))
    if person is None:
        return Change(alert, note="without effect: there is no such user")
    before = people.get(alert.plan.assigned_to or "")
    changed = alert.wanting(assigned_to=person.username)
    return Change(changed, before.name if before else None, person.name)


def _change_urgency(alert: Alert, action: Action, scene: Scene) -> Change:
    try:
        urgency = Urgency(int(_urgency_code(action.get("value"))))
    except ValueError as error:
        return Change(alert, note=str(error))
    before = urgency_of(alert, scene.facts)
    return Change(alert.wanting(urgency=urgency), before.name.lower(), urgency.name.lower())


def urgency_of(alert: Alert, facts: LaneFacts) -> Urgency:
    """The urgency of an incident that this alert opens: what a rule said, else its integration's."""
    if alert.plan.urgency is not None:
        return alert.plan.urgency
    return facts.integrations[alert.integration].default_urgency


def _change_message(alert: Alert, action: Action, scene: Scene) -> Change:
    text = clean_line(_filled(action, scene))
    if not text:
        return Change(alert, note="the message came out empty and stays as it was")
    return Change(alert.but(message=text), alert.message, text)


def _change_summary(alert: Alert, action: Action, scene: Scene) -> Change:
    text = clean_text(_filled(action, scene))
    return Change(alert.but(summary=text), alert.summary, text)


def _change_entity_id(alert: Alert, action: Action, scene: Scene) -> Change:
    """An empty template is a fresh id for each alert; one that comes out empty changes nothing, or
    alerts that have nothing to do with each other would become one."""
    template = str(action.get("value") or "")
    if not template.strip():
        fresh = identity.fresh_entity_id(alert.event_id)
        return Change(alert.but(entity_id=fresh), alert.entity_id, fresh)
    text = identity.fitting_entity_id(clean_entity_id(_filled(action, scene)))
    if not text:
        return Change(alert, note="the entity_id came out empty and stays as it was")
    return Change(alert.but(entity_id=text), alert.entity_id, text)


def _hash_entity_id(alert: Alert, action: Action, scene: Scene) -> Change:
    digest = hashlib.sha256(alert.entity_id.encode("utf-8", "replace")).hexdigest()
    return Change(alert.but(entity_id=digest), alert.entity_id, digest)


def _add_tags(alert: Alert, action: Action, scene: Scene) -> Change:
    """Tags by id or, as placeholders give them, by name in any case."""
    tags = scene.facts.nameable.tags
    said = [text.strip() for text in _filled(action, scene).split(",") if text.strip()]
    found = [named_by(tags, text) for text in said]
    rows = [tag.row for tag in found if tag is not None]
    missing = found.count(None)
    note = f"{missing} of {len(said)} tags do not exist" if missing else None if said else "it names no tag"
    names = ", ".join(tag.name for tag in found if tag is not None)
    wanted = tuple(dict.fromkeys((*alert.plan.tags, *rows)))
    if len(wanted) > MOST_TAGS:
        return Change(alert, note=f"an alert brings {MOST_TAGS} tags at most")
    return Change(alert.wanting(tags=wanted), None, names or None, note)


def named_by(of: Mapping[str, Named], text: str) -> Named | None:
    """What a text refers to: by unique_id, or by its exact name in any case."""
    found = of.get(text.lower())
    if found is not None:
        return found
    return next((named for named in of.values() if named.name.casefold() == text.casefold()), None)


def _assign_sla(alert: Alert, action: Action, scene: Scene) -> Change:
    slas = scene.facts.nameable.slas
    found = slas.get(reference_of(action))
    if found is None:
        return Change(alert, note="without effect: there is no such SLA")
    before = alert.plan.sla or scene.facts.service.sla
    return Change(alert.wanting(sla=found.row), _name(slas, before), found.name)


def _assign_priority(alert: Alert, action: Action, scene: Scene) -> Change:
    priorities = scene.facts.nameable.priorities
    found = priorities.get(reference_of(action))
    if found is None:
        return Change(alert, note="without effect: there is no such priority")
    before = alert.plan.team_priority or scene.facts.service.team_priority
    return Change(alert.wanting(team_priority=found.row), _name(priorities, before), found.name)


def _assign_role(alert: Alert, action: Action, scene: Scene) -> Change:
    people = scene.facts.directory.people
    role = scene.facts.nameable.roles.get(str(action.get("key") or "").strip().lower())
    person = people.get(reference_of(action))
    if role is None:
        return Change(alert, note="without effect: there is no such incident role")
    if person is None:
        return Change(alert, note="without effect: there is no such user")
    planned = dict(alert.plan.roles)
    before = people.get(planned.get(role.row, ""))
    changed = alert.wanting(roles=tuple({**planned, role.row: person.username}.items()))
    return Change(changed, _held(role, before.name) if before else None, _held(role, person.name))


def _held(role: Named, name: str) -> str:
    return f"{role.name}: {name}"


def _create_task(alert: Alert, action: Action, scene: Scene) -> Change:
    text = clean_text(_filled(action, scene), LONGEST_NOTE)
    if not text:
        return Change(alert, note="the task came out empty")
    if len(alert.plan.tasks) >= MOST_TASKS:
        return Change(alert, note=f"an alert brings {MOST_TASKS} tasks at most")
    return Change(alert.wanting(tasks=(*alert.plan.tasks, text)), None, text)


def _apply_task_template(alert: Alert, action: Action, scene: Scene) -> Change:
    found = scene.facts.nameable.task_templates.get(reference_of(action))
    if found is None:
        return Change(alert, note="without effect: there is no such task template")
    wanted = dict.fromkeys((*alert.plan.task_templates, found.row))
    return Change(alert.wanting(task_templates=tuple(wanted)), None, found.name)


def _add_responder(alert: Alert, action: Action, scene: Scene) -> Change:
    said, plan, nameable = reference_of(action).lower(), alert.plan, scene.facts.nameable
    person, policy = scene.facts.directory.people.get(said), nameable.policies.get(said)
    if person is not None:
        users = dict.fromkeys((*plan.responders, person.username))
        return Change(alert.wanting(responders=tuple(users)), None, person.name)
    if policy is not None:
        policies = dict.fromkeys((*plan.responder_policies, policy.row))
        return Change(alert.wanting(responder_policies=tuple(policies)), None, policy.name)
    schedule = nameable.schedules.get(said)
    if schedule is not None:
        there = people_on_call(said, scene.facts.directory, alert.accepted_at)
        if not there:
            return Change(alert, note=f"without effect: nobody is on call by {schedule.name}")
        users = dict.fromkeys((*plan.responders, *(one.username for one in there)))
        return Change(alert.wanting(responders=tuple(users)), None, ", ".join(one.name for one in there))
    return Change(alert, note="without effect: there is no such user, escalation policy or schedule")


def _assign_schedule(alert: Alert, action: Action, scene: Scene) -> Change:
    """To whoever is on call by a schedule when the alert comes: the first of them."""
    named = reference_of(action)
    schedule = scene.facts.nameable.schedules.get(named)
    if schedule is None:
        return Change(alert, note="without effect: there is no such schedule")
    people = scene.facts.directory.people
    first = next(iter(people_on_call(named, scene.facts.directory, alert.accepted_at)), None)
    if first is None:
        return Change(alert, note=f"without effect: nobody is on call by {schedule.name}")
    before = people.get(alert.plan.assigned_to or "")
    return Change(alert.wanting(assigned_to=first.username), before.name if before else None, first.name)


def _delay(alert: Alert, action: Action, scene: Scene) -> Change:
    text = str(action.get("value") or "0").strip()
    if not text.isdecimal() or len(text) > 6:
        return Change(alert, note="without effect: the delay is no number of seconds")
    return Change(alert.wanting(delay_s=int(text)), f"{alert.plan.delay_s} s", f"{int(text)} s")


def _filled(action: Action, scene: Scene) -> str:
    return templates.render(str(action.get("value") or ""), scene.subject)


ACTIONS: dict[RuleAction, Act] = {
    RuleAction.CHANGE_ALERT_TYPE: _change_alert_type,
    RuleAction.ADD_NOTE: _add_note,
    RuleAction.SUPPRESS: _suppress,
    RuleAction.ROUTE_TO_ESCALATION_POLICY: _route,
    RuleAction.ASSIGN_SCHEDULE: _assign_schedule,
    RuleAction.ASSIGN_USER: _assign_user,
    RuleAction.CHANGE_URGENCY: _change_urgency,
    RuleAction.CHANGE_MESSAGE: _change_message,
    RuleAction.CHANGE_SUMMARY: _change_summary,
    RuleAction.CHANGE_ENTITY_ID: _change_entity_id,
    RuleAction.ASSIGN_ROLE: _assign_role,
    RuleAction.ADD_TAGS: _add_tags,
    RuleAction.CREATE_TASK: _create_task,
    RuleAction.ASSIGN_SLA: _assign_sla,
    RuleAction.ASSIGN_PRIORITY: _assign_priority,
    RuleAction.APPLY_TASK_TEMPLATE: _apply_task_template,
    RuleAction.ADD_RESPONDER: _add_responder,
    RuleAction.HASH_ENTITY_ID: _hash_entity_id,
    RuleAction.DELAY_NOTIFICATIONS: _delay,
}
