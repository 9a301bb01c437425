"""Rules of integrations and alert grouping of services (contract sections 3.10, 3.12 and 4.2)."""

from collections.abc import Mapping

import peewee

from models.store.fields import JsonField, NumberedObject, UtcField
from models.tables.services import Integration, Service

# An action has a unique_id, an action_type and the fields of pipeline/rules/action_table.py. The references
# are ids as sent; the objects may not exist any more.
StoredAction = Mapping[str, object]


class AlertRule(NumberedObject):
    """An alert rule. `conditions` and `actions` are always read and replaced as a whole.

    A condition is {unique_id, alert_condition_type, alert_field, pattern, position}. An action is a
    StoredAction.
    """

    integration = peewee.ForeignKeyField(Integration, on_delete="CASCADE")
    description = peewee.TextField(default="")
    rule_type = peewee.SmallIntegerField(default=0)
    stop = peewee.BooleanField(default=False)
    position = peewee.IntegerField()
    is_enabled = peewee.BooleanField(default=True)
    rule_json = peewee.TextField(default="")
    conditions = JsonField(default=list)
    actions = JsonField(default=list)


class OutgoingRule(NumberedObject):
    """Selects the incidents that an outbound integration receives (contract sections 3.12 and 4.8)."""

    integration = peewee.ForeignKeyField(Integration, on_delete="CASCADE")
    is_enabled = peewee.BooleanField(default=True)
    rule_json = peewee.TextField(default="")


class AlertGroupingPolicy(NumberedObject):
    """How a service groups its alerts; `match_fields` as in contract 3.12, `time_window` in minutes."""

    service = peewee.ForeignKeyField(Service, on_delete="CASCADE")
    match_mode = peewee.SmallIntegerField(default=1)
    match_fields = JsonField(default=dict)
    time_window = peewee.IntegerField(default=5)
    is_active = peewee.BooleanField(default=True)
    updated_at = UtcField()
