"""Outbound integrations: where they send incidents, and the deliveries (contract section 4.8)."""

import peewee

from models.store.fields import ReasonField, Table, UtcField
from models.tables.incidents import Incident
from models.tables.services import Integration


class OutboundTarget(Table):
    """The URL to which an outbound integration sends incidents, and the secret that signs the requests.

    - `failures`: attempts without success since the last one with success. `retry_at`: not before then.
    - `claimed_until`: until then only one worker may send to the target. `claimed_by`: the number of its
      process (models/processes/claim_holders.py).
    - `served_at`: when a worker claimed it last. The target that was served least recently is next.
    """

    integration = peewee.ForeignKeyField(Integration, unique=True, on_delete="CASCADE")
    url = peewee.TextField()
    secret = peewee.CharField(max_length=64)
    creation_date = UtcField()
    failures = peewee.IntegerField(default=0)
    retry_at = UtcField(null=True)
    claimed_until = UtcField(null=True)
    claimed_by = peewee.IntegerField(null=True)
    served_at = UtcField(null=True)


class OutboundDelivery(Table):
    """A change of an incident that is sent to a target. `unique_id` is the id of the webhook.

    `event` is an OutboundEvent, `state` an OutboundStatus. `outcome` is the reason of the last attempt.
    """

    unique_id = peewee.CharField(max_length=36, unique=True)
    target = peewee.ForeignKeyField(OutboundTarget, on_delete="CASCADE")
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    event = peewee.CharField(max_length=16)
    created_at = UtcField()
    next_attempt_at = UtcField()
    attempts = peewee.IntegerField(default=0)
    last_attempt_at = UtcField(null=True)
    state = peewee.SmallIntegerField(default=0)
    outcome = ReasonField(null=True)
    done_at = UtcField(null=True)


OutboundDelivery.declare_index("outbound_delivery_due", "target", "next_attempt_at", where="state = 0")
