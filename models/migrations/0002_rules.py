"""Routers, alert rules, tags and notes, what was set aside and taken up again, and counted samples."""

from typing import Any

from peewee import (
    BooleanField,
    CharField,
    DoubleField,
    ForeignKeyField,
    IntegerField,
    Model,
    SmallIntegerField,
    TextField,
)

from models.base import JsonField, UtcField


class Account(Model):
    class Meta:
        table_name = "account"


class User(Model):
    class Meta:
        table_name = "user"


class Team(Model):
    class Meta:
        table_name = "team"


class Integration(Model):
    class Meta:
        table_name = "integration"


class Incident(Model):
    class Meta:
        table_name = "incident"


class GlobalRouter(Model):
    unique_id = CharField(max_length=36, unique=True)
    account = ForeignKeyField(Account, on_delete="CASCADE")
    name = CharField(max_length=255)
    description = TextField()
    is_enabled = BooleanField()
    integration_key = CharField(max_length=36, unique=True)
    creation_date = UtcField()

    class Meta:
        table_name = "global_router"


class RouterRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    router = ForeignKeyField(GlobalRouter, on_delete="CASCADE")
    name = CharField(max_length=255)
    position = IntegerField()
    rule_json = TextField()
    actions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "router_rule"


class AlertRule(Model):
    unique_id = CharField(max_length=36, unique=True)
    integration = ForeignKeyField(Integration, on_delete="CASCADE")
    description = TextField()
    rule_type = SmallIntegerField()
    stop = BooleanField()
    position = IntegerField()
    is_enabled = BooleanField()
    rule_json = TextField()
    conditions = JsonField()
    actions = JsonField()
    creation_date = UtcField()

    class Meta:
        table_name = "alert_rule"


class Tag(Model):
    unique_id = CharField(max_length=36, unique=True)
    team = ForeignKeyField(Team, on_delete="CASCADE")
    name = CharField(max_length=255)
    color = CharField(max_length=64)
    creation_date = UtcField()

    class Meta:
        table_name = "tag"


class IncidentTag(Model):
    unique_id = CharField(max_length=36, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    team_tag = ForeignKeyField(Tag, on_delete="CASCADE")
    creation_date = UtcField()

    class Meta:
        table_name = "incident_tag"
        indexes = ((("incident", "team_tag"), True),)


class IncidentNote(Model):
    unique_id = CharField(max_length=22, unique=True)
    incident = ForeignKeyField(Incident, on_delete="CASCADE")
    user = ForeignKeyField(User, null=True)
    note = TextField()
    creation_date = UtcField()

    class Meta:
        table_name = "incident_note"


class Sample(Model):
    name = CharField(max_length=80)
    labels = CharField(max_length=255)
    value = DoubleField()

    class Meta:
        table_name = "sample"
        indexes = ((("name", "labels"), True),)


KNOWN = (Account, User, Team, Integration, Incident)
NEW = (GlobalRouter, RouterRule, AlertRule, Tag, IncidentTag, IncidentNote, Sample)

# name, table, columns, only rows where
PARTIAL_INDEXES = (
    ("receipt_to_route", "receipt", ["router_id", "id"], "state = 0 AND router_id IS NOT NULL"),
    ("entity_held_last", "entity", ["last_incident_id"], "last_incident_id IS NOT NULL"),
)


def reference_to(table: Any) -> Any:
    return ForeignKeyField(table, field=table.id, null=True, on_delete="SET NULL", index=False)


def up(migrator, db):
    with db.bind_ctx((*KNOWN, *NEW), bind_refs=False, bind_backrefs=False):
        db.create_tables(NEW)
        migrator.migrate(
            migrator.add_column("receipt", "router_id", reference_to(GlobalRouter)),
            migrator.add_column("receipt", "replayed_at", UtcField(null=True)),
            migrator.add_column("event", "rules", JsonField(default=list)),
            migrator.add_column("entity", "last_incident_id", reference_to(Incident)),
        )
    # What an open incident holds now is the last that its entities are known to have been in.
    db.execute_sql('UPDATE "entity" SET "last_incident_id" = "incident_id"')
    for name, table, columns, where in PARTIAL_INDEXES:
        names = ", ".join(f'"{column}"' for column in columns)
        db.execute_sql(f'CREATE INDEX "{name}" ON "{table}" ({names}) WHERE {where}')
