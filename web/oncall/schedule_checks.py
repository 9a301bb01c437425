"""What `tocsin check` and answers with conflicts report about a schedule (under /api/tocsin/schedules/)."""

from marshmallow import validate

from models.domain.enums import DoubleShifts
from models.tables.schedules import Schedule
from web.http import serialization
from web.http.fields import Schema, Text, explain
from web.http.resource import change_transaction
from web.http.writing import NumberedAnswer, Part, Writing, begin_change, read_update
from web.oncall.schedule_overview import access_schedule


class ScheduleChecksSchema(Schema):
    """What checks report. A problem of one schedule counts more than `intended` of the other one."""

    double_shifts = Text(
        validate=validate.OneOf([choice.value for choice in DoubleShifts]),
        metadata=explain(
            "How people are reported who are on call twice at the same time: as minor (default), not"
            " at all (`intended`), or as a problem."
        ),
    )


CHECKS = ScheduleChecksSchema()


def retrieve(schedule_id: str) -> dict[str, object]:
    """Get what checks report about a schedule."""
    return _show(access_schedule(schedule_id))


def update(schedule_id: str) -> dict[str, object]:
    """Update what checks report about a schedule."""
    return write(access_schedule(schedule_id), serialization.read_body(), read_update())


def write(row: Schedule, values: dict[str, str], writing: Writing) -> dict[str, object]:
    """Change what checks report about a schedule, and return it."""
    # The version of the configuration does not change: who is on call does not depend on this.
    with change_transaction():
        row = begin_change(row, writing, PART)
        row.double_shifts = values.get("double_shifts", row.double_shifts)
        row.save(only=[Schedule.double_shifts])
    return _show(row)


def _show(row: Schedule) -> dict[str, object]:
    return NumberedAnswer(row.number, {"double_shifts": row.double_shifts})


PART = Part("schedule", "checks", _show, write=write)
