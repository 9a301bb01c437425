"""Store where outbound integrations send incidents, and the deliveries.

Processes of the previous version may still run. They send nothing: their changes of incidents have no
deliveries. The new column of services may be NULL, which means that nothing is sent.
"""

import peewee

from models.store.base import ReasonField, UtcField


class Integration(peewee.Model):
    class Meta:
        table_name = "integration"


class Incident(peewee.Model):
    class Meta:
        table_name = "incident"


class OutboundTarget(peewee.Model):
    integration = peewee.ForeignKeyField(Integration, unique=True, on_delete="CASCADE")
    url = peewee.TextField()
    secret = peewee.CharField(max_length=64)
    creation_date = UtcField()
    failures = peewee.IntegerField(default=0)
    retry_at = UtcField(null=True)
    claimed_until = UtcField(null=True)
    served_at = UtcField(null=True)

    class Meta:
        table_name = "outbound_target"


class OutboundDelivery(peewee.Model):
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

    class Meta:
        table_name = "outbound_delivery"


OutboundDelivery.add_index(
    OutboundDelivery.index(
        OutboundDelivery.target,
        OutboundDelivery.next_attempt_at,
        where=peewee.SQL("state = 0"),
        name="outbound_delivery_due",
    )
)


def up(migrator, db):
    db.execute_sql('ALTER TABLE "service" ADD COLUMN "has_outbound" BOOLEAN')
    with db.bind_ctx([Integration, Incident, OutboundTarget, OutboundDelivery]):
        db.create_tables([OutboundTarget, OutboundDelivery])
