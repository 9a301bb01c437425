"""Receipts (raw bodies), events (alerts) and entities (things that are alerting)."""

import peewee

from models.domain.reasons import Reason, from_json
from models.store.fields import JsonField, ReasonField, SequenceField, Table, UtcField
from models.tables.accounts import Account
from models.tables.incidents import Incident
from models.tables.routers import GlobalRouter
from models.tables.services import DeletedIntegration, Integration, Service


class Receipt(Table):
    """The raw body and its lane, committed before the sender gets its 2xx.

    `id` is the order of acceptance. `source` names the normalizer that reads the body. `headers` are those of
    the request that the source reads, by their names in lower case; None: none. The lane belongs to
    the service or to the router. With a router, integration and service are in the events. Decisions use
    `replayed_at` as the time of the alert if it was a dead letter and was replayed, else `received_at`.
    """

    id = SequenceField()
    trace_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    integration = peewee.ForeignKeyField(Integration, null=True, on_delete="SET NULL", index=False)
    service = peewee.ForeignKeyField(Service, null=True, on_delete="SET NULL", index=False)
    router = peewee.ForeignKeyField(GlobalRouter, null=True, on_delete="SET NULL", index=False)
    source = peewee.CharField(max_length=32)
    body = peewee.BlobField()
    # The number of alerts in the body, so that a batch can be limited before bodies are read.
    alerts = peewee.IntegerField(default=1)
    received_at = UtcField()
    replayed_at = UtcField(null=True)
    state = peewee.SmallIntegerField(default=0)
    error = ReasonField(null=True)
    headers = JsonField(null=True)


Receipt.declare_index("receipt_pending", "service", "id", where="state = 0")
Receipt.declare_index("receipt_to_route", "router", "id", where="state = 0 AND router_id IS NOT NULL")
Receipt.declare_index("receipt_dead_letter", "id", where="state = 2")
# For the health of an integration, and its deletion.
Receipt.declare_index("receipt_of_integration", "integration", "received_at")
Receipt.declare_index("receipt_dead_letter_of", "integration", "id", where="state = 2")


class ReceiptProgress(Table):
    """How far a receipt is done that is processed in pieces. The transaction of each piece writes it.

    `alerts_done` alerts of the body are done, and became `events_written` events if the lane is a router's.
    The row exists only between the first piece and the last one.

    It is no column of the receipt: with each change of that row, SQLite reads the whole body (decision 0029).
    """

    receipt = peewee.ForeignKeyField(Receipt, unique=True, on_delete="CASCADE")
    alerts_done = peewee.IntegerField()
    events_written = peewee.IntegerField()


class Event(Table):
    """One alert in one integration. `position` is its place in the receipt's body.

    - `stage`: the next stage; "" at the end of the pipeline.
    - `reasons`: the reasons of the stages so far, [[stage, reason], ...]; `list_reasons` reads them.
    - `rules`: the result of each evaluated rule.
    - `alert`: everything without a column of its own (payload, urls, images, notes, requested options,
      incident options).
    - `integration`: None if no rule of the router sent the alert to an integration, or if it was deleted.
    - `deleted_integration`: the integration, if it was deleted.
    """

    unique_id = peewee.CharField(max_length=22, unique=True)
    receipt = peewee.ForeignKeyField(Receipt, on_delete="CASCADE")
    position = peewee.IntegerField()
    integration = peewee.ForeignKeyField(Integration, null=True, on_delete="SET NULL", index=False)
    service = peewee.ForeignKeyField(Service, null=True, on_delete="SET NULL", index=False)
    incident = peewee.ForeignKeyField(Incident, null=True, on_delete="SET NULL", index=False)
    incident_created = peewee.BooleanField(default=False)
    message = peewee.TextField()
    summary = peewee.TextField(default="")
    alert_type = peewee.SmallIntegerField()
    entity_id = peewee.CharField(max_length=255)
    suppressed = peewee.BooleanField(default=False)
    alert = JsonField(default=dict)
    source_at = UtcField(null=True)
    creation_date = UtcField()
    stage = peewee.CharField(max_length=16, default="")
    state = peewee.SmallIntegerField(default=1)
    reasons = JsonField(default=list)
    rules = JsonField(default=list)
    error = ReasonField(null=True)
    deleted_integration = peewee.ForeignKeyField(
        DeletedIntegration, null=True, on_delete="SET NULL", index=False
    )

    @property
    def known_integration(self) -> Integration | DeletedIntegration | None:
        """Return the integration, also if it was deleted."""
        found: Integration | DeletedIntegration | None = self.integration or self.deleted_integration
        return found


def list_reasons(event: Event) -> list[tuple[str, Reason]]:
    """Return the reasons of the stages that an alert passed, each with the name of the stage."""
    return [(stage, from_json(reason)) for stage, reason in event.reasons]


# In the order of the lists; otherwise PostgreSQL scans the alerts of all incidents to find one page.
Event.declare_index("event_of_incident", "incident", "id")
Event.declare_index("event_of_integration", "integration", "id")
# The alert that opened an incident, for messages. An incident can have a million alerts.
Event.declare_index("event_opener", "incident", where="incident_created")
# For the deletion of copies of integrations, which searches for alerts that refer to them.
Event.declare_index(
    "event_of_deleted_integration", "deleted_integration", where="deleted_integration_id IS NOT NULL"
)
# In the order in which a lane takes alerts: groups from Alertmanager can become a million pending alerts.
Event.declare_index("event_pending", "service", "receipt", "position", "id", where="state = 0")
Event.declare_index("event_dead_letter", "id", where="state = 2")
Event.declare_index("event_dead_letter_of", "integration", "id", where="state = 2")


class Entity(Table):
    """The thing that is alerting. The dedupe stage reads only this table.

    - `incident`: the open incident that holds the entity. `last_incident`: the last one that held it.
    - `firing`: false after a resolved alert.
    - `expires_at`: when the entity ends, if its alert is not sent again; None: it does not end by itself.
    - `repeats_at`: until then, the alert is not stored again.
    - `resolved_source_at`: the time of the last resolve by the clock of the source (invariant 4, design,
      section 2). `resolved_at`: the same by our clock.
    """

    integration = peewee.ForeignKeyField(Integration, on_delete="CASCADE", index=False)
    entity_id = peewee.CharField(max_length=255)
    firing = peewee.BooleanField(default=False)
    incident = peewee.ForeignKeyField(Incident, null=True, on_delete="SET NULL", index=False)
    last_incident = peewee.ForeignKeyField(
        Incident, null=True, on_delete="SET NULL", index=False, backref="+"
    )
    resolved_source_at = UtcField(null=True)
    resolved_at = UtcField(null=True)
    # The unique_id of the last alert that was deferred, while the entity is still firing.
    deferred_alert = peewee.CharField(max_length=22, null=True)
    # For alerts that their source sends again while they fire (pipeline/stages/resent_alerts.py).
    expires_at = UtcField(null=True)
    repeats_at = UtcField(null=True)

    class Meta:
        indexes = ((("integration", "entity_id"), True),)


Entity.declare_index("entity_expiring", "expires_at", where="expires_at IS NOT NULL")
Entity.declare_index("entity_deferred", "integration", where="deferred_alert IS NOT NULL")


Entity.declare_index("entity_held", "incident", where="incident_id IS NOT NULL")
# For the deletion of incidents, which searches for rows that refer to them.
Entity.declare_index("entity_held_last", "last_incident", where="last_incident_id IS NOT NULL")
