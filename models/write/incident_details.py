"""Write notes, tags, responders, roles and tasks of incidents."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

from models.domain.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    ApplyTaskTemplate,
    AssignRole,
    RecordLog,
)
from models.domain.identity import derive_uuid
from models.store import bulk
from models.store.prepared import Prepared, in_bound
from models.tables.incidents import (
    IncidentAssignment,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.tasks import TaskTemplate, TemplateTask


def write_notes(notes: Iterable[AddNote], incident_rows: Mapping[str, int]) -> None:
    bulk.insert(
        IncidentNote,
        [
            {
                "unique_id": note.unique_id,
                "incident": incident_rows[note.incident],
                "user": None,
                "note": note.text,
                "creation_date": note.at,
            }
            for note in notes
        ],
    )


def write_tags(tags: Iterable[AddTag], incident_rows: Mapping[str, int]) -> None:
    first_of_each: dict[tuple[str, int], AddTag] = {}
    for tag in tags:
        first_of_each.setdefault((tag.incident, tag.tag), tag)
    bulk.insert(
        IncidentTag,
        [
            {
                "unique_id": tag.unique_id,
                "incident": incident_rows[tag.incident],
                "team_tag": tag.tag,
                "creation_date": tag.at,
            }
            for tag in first_of_each.values()
        ],
        conflict=["incident", "team_tag"],
    )


def write_responders(responders: Collection[AddResponder], incident_rows: Mapping[str, int]) -> None:
    for kind in ("user", "escalation_policy"):
        bulk.insert(
            IncidentResponder,
            [
                {
                    "unique_id": responder.unique_id,
                    "incident": incident_rows[responder.incident],
                    "user": responder.user,
                    "escalation_policy": responder.escalation_policy,
                    "subject": responder.subject,
                    "message": responder.message,
                    "creation_date": responder.at,
                }
                for responder in responders
                if getattr(responder, kind) is not None
            ],
            conflict=["incident", kind],
        )


def write_roles(roles: Iterable[AssignRole], incident_rows: Mapping[str, int]) -> None:
    last_of_each = {(role.incident, role.role): role for role in roles}
    bulk.insert(
        IncidentAssignment,
        [
            {
                "unique_id": role.unique_id,
                "incident": incident_rows[role.incident],
                "role": role.role,
                "user": role.user,
                "creation_date": role.at,
            }
            for role in last_of_each.values()
        ],
        conflict=["incident", "role"],
        replacing=["user", "creation_date"],
    )


def write_tasks(tasks: Iterable[AddTask], incident_rows: Mapping[str, int]) -> None:
    bulk.insert(
        IncidentTask,
        [
            {
                "unique_id": task.unique_id,
                "incident": incident_rows[task.incident],
                "title": task.title,
                "description": task.description,
                "due_at": task.due_at,
                "role": task.role,
                "creation_date": task.at,
            }
            for task in tasks
        ],
        conflict=["unique_id"],
    )


def expand_templates(
    effects: Iterable[ApplyTaskTemplate], _: Mapping[str, int]
) -> Iterable[AddTask | RecordLog]:
    """Return the tasks of templates in order, and one log entry for each template.

    A template that is applied to an incident twice counts once, by its first effect.
    """
    templates: dict[tuple[str, int], ApplyTaskTemplate] = {}
    for effect in effects:
        templates.setdefault((effect.incident, effect.template), effect)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for template, *task in _TEMPLATE_TASKS.rows(templates={template for _, template in templates}):
        found.setdefault(template, []).append(tuple(task))
    for (incident, template), effect in templates.items():
        for _, is_immediate, unique_id, title, description, minutes, role in found.get(template, ()):
            # The due time of the task counts. Without one, the template can make the task due immediately.
            in_minutes = minutes if minutes >= 0 else 0 if is_immediate else None
            due_at = None if in_minutes is None else effect.at + timedelta(minutes=in_minutes)
            name = derive_uuid("task of a template", incident, unique_id)
            yield AddTask(incident, name, title, description, effect.at, due_at, role)
        if template in found:
            reason = f"the tasks of template {found[template][0][0]}"
            yield RecordLog(incident, effect.at, "tasks_added", reason, effect.actor)


_TEMPLATE_TASKS = Prepared(
    lambda: (
        TemplateTask.select(
            TemplateTask.task_template, TaskTemplate.name, TaskTemplate.due_immediately,
            TemplateTask.unique_id, TemplateTask.title, TemplateTask.description, TemplateTask.due_in,
            TemplateTask.role,
        )
        .join(TaskTemplate)
        .where(in_bound(TemplateTask.task_template, "templates"))
        .order_by(TemplateTask.position, TemplateTask.id)
    )
)  # fmt: skip
