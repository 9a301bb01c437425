"""What an integration does to its alerts before anything else is decided (contract sections 3.10, 4.2)."""

import peewee

from models.base import JsonField, Table, UtcField
from models.services import Integration


class AlertRule(Table):
    """`conditions` and `actions` are replaced and read as a whole.

    A condition is {unique_id, alert_condition_type, alert_field, pattern, position}; an action {unique_id,
    action_type, key, value, escalation_policy, assign_to, schedule, sla, team_priority, task_template}: the
    typed fields are ids as given, whether or not there is such an object now.
    """

    unique_id = peewee.CharField(max_length=36, unique=True)
    integration = peewee.ForeignKeyField(Integration, on_delete="CASCADE")
    description = peewee.TextField(default="")
    rule_type = peewee.SmallIntegerField(default=0)
    stop = peewee.BooleanField(default=False)
    position = peewee.IntegerField()
    is_enabled = peewee.BooleanField(default=True)
    rule_json = peewee.TextField(default="")
    conditions = JsonField(default=list)
    actions = JsonField(default=list)
    creation_date = UtcField()
