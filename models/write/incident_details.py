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
from models.domain.reasons import make_reason
from models.store import bulk
from models.store.bulk import Record
from models.store.prepared import Prepared, in_bound
from models.tables.incidents import (
    IncidentAssignment,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.tasks import TaskTemplate, TemplateTask

Detail = AddNote | AddTag | AddResponder | AssignRole | AddTask


def _build_record(detail: Detail, incident_rows: Mapping[str, int], **columns: object) -> Record:
    """Build a record with these columns and those that all details of an incident have."""
    incident = incident_rows[detail.incident]
    return {"unique_id": detail.unique_id, "incident": incident, "creation_date": detail.at, **columns}


def write_notes(notes: Iterable[AddNote], incident_rows: Mapping[str, int]) -> None:
    records = [_build_record(note, incident_rows, user=note.user, note=note.text) for note in notes]
    bulk.insert(IncidentNote, records)


def write_tags(tags: Iterable[AddTag], incident_rows: Mapping[str, int]) -> None:
    first_of_each: dict[tuple[str, int], AddTag] = {}
    for tag in tags:
        first_of_each.setdefault((tag.incident, tag.tag), tag)
    records = [_build_record(tag, incident_rows, team_tag=tag.tag) for tag in first_of_each.values()]
    bulk.insert(IncidentTag, records, conflict=["incident", "team_tag"])


def write_responders(responders: Collection[AddResponder], incident_rows: Mapping[str, int]) -> None:
    for kind in ("user", "escalation_policy"):
        records = [
            _build_record(
                responder,
                incident_rows,
                user=responder.user,
                escalation_policy=responder.escalation_policy,
                subject=responder.subject,
                message=responder.message,
            )
            for responder in responders
            if getattr(responder, kind) is not None
        ]
        bulk.insert(IncidentResponder, records, conflict=["incident", kind])


def write_roles(roles: Iterable[AssignRole], incident_rows: Mapping[str, int]) -> None:
    last_of_each = {(role.incident, role.role): role for role in roles}
    records = [
        _build_record(role, incident_rows, role=role.role, user=role.user) for role in last_of_each.values()
    ]
    bulk.insert(
        IncidentAssignment, records, conflict=["incident", "role"], replacing=["user", "creation_date"]
    )


def write_tasks(tasks: Iterable[AddTask], incident_rows: Mapping[str, int]) -> None:
    records = [
        _build_record(
            task,
            incident_rows,
            title=task.title,
            description=task.description,
            due_at=task.due_at,
            role=task.role,
        )
        for task in tasks
    ]
    bulk.insert(IncidentTask, records, conflict=["unique_id"])


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
            why = make_reason("tasks_added", template=found[template][0][0])
            yield RecordLog(incident, effect.at, "tasks_added", why, effect.author)


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
