"""An alert as it came in (Receipt), as it is understood (Event), and what it is about (Entity)."""

import peewee

from models.store.base import JsonField, SequenceField, Table, UtcField
from models.tables.accounts import Account
from models.tables.incidents import Incident
from models.tables.routers import GlobalRouter
from models.tables.services import Integration, Service


class Receipt(Table):
    """What is committed before a sender hears 2xx: the raw body and the lane that will work on it.

    `id` is the order of acceptance. `source` names the normaliser that reads the body. The lane is a
    service's, or a router's: then integration and service are those of the events that it makes. Times of
    decisions count from `replayed_at`, if it was set aside and taken up again, else from `received_at`.
    """

    id = SequenceField()
    trace_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    integration = peewee.ForeignKeyField(Integration, null=True, on_delete="SET NULL")
    service = peewee.ForeignKeyField(Service, null=True, on_delete="SET NULL", index=False)
    router = peewee.ForeignKeyField(GlobalRouter, null=True, on_delete="SET NULL", index=False)
    source = peewee.CharField(max_length=32)
    body = peewee.BlobField()
    # How many alerts the body holds, so that a batch can be bounded before anything is read.
    alerts = peewee.IntegerField(default=1)
    received_at = UtcField()
    replayed_at = UtcField(null=True)
    state = peewee.SmallIntegerField(default=0)
    error = peewee.TextField(null=True)


Receipt.add_index(
    Receipt.index(Receipt.service, Receipt.id, where=peewee.SQL("state = 0"), name="receipt_pending")
)
Receipt.add_index(
    Receipt.index(
        Receipt.router,
        Receipt.id,
        where=peewee.SQL("state = 0 AND router_id IS NOT NULL"),
        name="receipt_to_route",
    )
)
Receipt.add_index(Receipt.index(Receipt.id, where=peewee.SQL("state = 2"), name="receipt_dead_letter"))


class Event(Table):
    """One alert in one integration. `position` is its place in the receipt's body.

    `stage` is the first stage still to come ("" when the road is over); `reasons` is the road so
    far, [[stage, reason], ...]; `rules` what each rule said that was looked at; `alert` holds what the
    columns do not (payload, urls, images, notes, the wishes of the sender, what rules want). An alert that
    no rule of its router sent anywhere has no integration.
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
    error = peewee.TextField(null=True)


# In the order of their lists, or PostgreSQL looks for a page of them by walking over the alerts of all.
Event.add_index(Event.index(Event.incident, Event.id, name="event_of_incident"))
Event.add_index(Event.index(Event.integration, Event.id, name="event_of_integration"))
# In the order in which a lane takes them: a group of Alertmanager's may wait as a million of them.
Event.add_index(
    Event.index(
        Event.service,
        Event.receipt,
        Event.position,
        Event.id,
        where=peewee.SQL("state = 0"),
        name="event_pending",
    )
)
Event.add_index(Event.index(Event.id, where=peewee.SQL("state = 2"), name="event_dead_letter"))


class Entity(Table):
    """The thing that is alerting. The one place that dedupe reads.

    `incident` is the open incident that holds it, if any; `last_incident` the last one that did; `firing`
    is false once its source said resolved. The last resolve is remembered by the source's own time (law 4).
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
    # The unique_id of the alert that maintenance kept from opening an incident, while it still burns.
    deferred_alert = peewee.CharField(max_length=22, null=True)

    class Meta:
        indexes = ((("integration", "entity_id"), True),)


Entity.add_index(
    Entity.index(Entity.integration, where=peewee.SQL("deferred_alert IS NOT NULL"), name="entity_deferred")
)


Entity.add_index(
    Entity.index(Entity.incident, where=peewee.SQL("incident_id IS NOT NULL"), name="entity_held")
)
# For the deletion of incidents, which looks for what refers to them.
Entity.add_index(
    Entity.index(
        Entity.last_incident, where=peewee.SQL("last_incident_id IS NOT NULL"), name="entity_held_last"
    )
)
