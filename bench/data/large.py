"""Fill a PostgreSQL database with many services, incidents, alerts and rules, by few statements."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import peewee

from bench.traffic import GENERIC as BODY
from models.domain.applications import GENERIC
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import (
    AlertType,
    IncidentStatus,
    MessageStatus,
    NotificationStatus,
    Urgency,
    WorkState,
)
from models.domain.reasons import make_reason
from models.people import provisioning
from models.store import bulk
from models.store.fields import Table
from models.store.ids import make_uuid
from models.store.peewee_internals import get_defaults, get_fields, get_table_name
from models.store.store import connection, db, store
from models.tables.accounts import Account, User, bump_version
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service

# The names of all filled objects begin with this.
PREFIX = "Large "
# A hundredth of the services have a team of their own.
SERVICES_OF_TEAM = 100
# Rules change the urgency to the one that it has.
CHANGE_URGENCY = 7

# Numbers the rows of each service from 1.
_TURN = "row_number() over (partition by service_id order by id) as turn"
# The rows of the services in the table `place`.
_FILLED = "service_id in (select service from place)"
_UUID = "gen_random_uuid()::text"
_SHORT_ID = "left(replace(gen_random_uuid()::text, '-', ''), 22)"


@dataclass(frozen=True, slots=True)
class Sizes:
    """`services` divides `incidents`, and `incidents` divides `events`."""

    services: int = 10_000
    incidents: int = 100_000
    events: int = 1_000_000
    rules: int = 10_000

    def divide(self, by: int) -> "Sizes":
        return Sizes(*(each // by for each in (self.services, self.incidents, self.events, self.rules)))


def write_large(account_id: str, sizes: Sizes) -> None:
    """Write everything except the rules. Each open incident has an entity, ten alerts and a sent message."""
    with connection():
        account = Account.get(Account.account_identifier == account_id)
        for write in (_write_services, _write_incidents, _write_alerts, _write_messages):
            with store().write_transaction():
                _prepare_transaction()
                write(account, sizes)
        # The next statements do what a server does itself within minutes of such a load.
        db.execute_sql("VACUUM ANALYZE")
        # Only some users may do this. Without it, the checkpoint is in the time of the first run.
        with suppress(peewee.ProgrammingError):
            db.execute_sql("CHECKPOINT")


def _prepare_transaction() -> None:
    # Whole tables are read here. Sessions of Tocsin avoid it (decision 0009).
    db.execute_sql("SET LOCAL enable_seqscan = on")
    # To check the references of each row takes most of the time. Only a superuser may leave it out.
    if db.execute_sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,):
        db.execute_sql("SET LOCAL session_replication_role = replica")


def write_rules(keys: list[str], rules: int, matching: int) -> None:
    """Replace the rules of these integrations: divide `rules` among them.

    `matching` rules of each integration match each alert; all, if it has fewer.
    """
    with connection(), store().write_transaction():
        integrations = list(Integration.select().where(Integration.integration_key.in_(keys)))
        each = rules // len(integrations)
        AlertRule.delete().where(AlertRule.integration.in_(integrations)).execute()
        bulk.insert(
            AlertRule,
            [
                _build_rule(integration, number, number * matching // each < (number + 1) * matching // each)
                for integration in integrations
                for number in range(each)
            ],
        )
        bump_version(integrations[0].team.account_id)


def _build_rule(integration: Integration, number: int, matches: bool) -> dict[str, Any]:
    host = "db1.example.org" if matches else f"db1.site{number}.example.org"
    conditions = [{"==": [{"var": "payload.host"}, host]}, {"!=": [{"var": "message"}, f"Test {number}"]}]
    return {
        "unique_id": make_uuid(),
        "integration": integration.id,
        "position": number + 1,
        "description": f"Rule {number}",
        "rule_json": json.dumps({"and": conditions}),
        "actions": [
            {"unique_id": make_uuid(), "action_type": CHANGE_URGENCY, "value": str(int(Urgency.HIGH))}
        ],
        "creation_date": integration.creation_date,
    }


def _write_services(account: Account, sizes: Sizes) -> None:
    """Write teams, services with an integration each, and a table `place` that numbers the services."""
    owner, now = User.get(User.account == account), store().now()
    teams = max(sizes.services // SERVICES_OF_TEAM, 1)
    for number in range(teams):
        provisioning.create_team(account, f"{PREFIX}{number}", owner, now)
    _insert(
        Service,
        {
            "unique_id": _UUID,
            "team": "t.team",
            "name": f"'{PREFIX}' || n",
            "created_by": str(owner.id),
            "escalation_policy": "t.policy",
            "creation_date": "now()",
        },
        f"""generate_series(1, {sizes.services}) n join (
        select row_number() over (order by t.id) as number, t.id as team, p.id as policy
        from team t join escalation_policy p on p.team_id = t.id where starts_with(t.name, '{PREFIX}')
        ) t on t.number = mod(n, {teams}) + 1""",
    )
    _insert(
        Integration,
        {
            "unique_id": _UUID,
            "service": "s.id",
            "application": f"'{GENERIC}'",
            "name": "'Alerts'",
            "integration_key": _UUID,
            "created_by": str(owner.id),
            "creation_date": "now()",
        },
        f"service s where starts_with(s.name, '{PREFIX}')",
    )
    _number_rows(
        "place",
        "s.id as service, s.team_id as team, s.escalation_policy_id as policy, i.id as integration",
        f"service s join integration i on i.service_id = s.id where starts_with(s.name, '{PREFIX}')",
        "s.id",
    )
    bump_version(account.id)


def _write_incidents(account: Account, sizes: Sizes) -> None:
    """Write open incidents without a step left, and a table `opened` that numbers them, also by service."""
    at = _spread_over_days(sizes.incidents)
    _insert(
        Incident,
        {
            "unique_id": _SHORT_ID,
            "account": str(account.id),
            "incident_number": f"{account.last_incident_number} + n",
            "incident_key": _SHORT_ID,
            "service": "p.service",
            "team": "p.team",
            "title": "'Disk of db' || n || ' is 93 percent full'",
            "summary": "'At this rate it is full in three hours.'",
            "status": str(int(IncidentStatus.TRIGGERED)),
            "urgency": str(int(Urgency.HIGH)),
            "escalation_policy": "p.policy",
            "creation_date": at,
            "run_started_at": at,
            "sla_started_at": at,
            "next_step": "1",
            "paged_someone": "true",
            "exhausted": "true",
        },
        f"generate_series(1, {sizes.incidents}) n join place p on p.number = mod(n, {sizes.services}) + 1",
    )
    _number_rows("opened", f"id, service_id as service, {_TURN}", f"incident where {_FILLED}", "id")
    Account.update(last_incident_number=Account.last_incident_number + sizes.incidents).where(
        Account.id == account
    ).execute()
    _insert(
        Entity,
        {
            "integration": "p.integration",
            "entity_id": "'large-' || o.number",
            "firing": "true",
            "incident": "o.id",
            "last_incident": "o.id",
        },
        "opened o join place p on p.service = o.service",
    )
    _insert(
        IncidentLog,
        {
            "incident": "o.id",
            "at": "now()",
            "what": "'opened'",
            "reason": _encode_reason(IncidentLog.reason),
            "author_kind": "'alert'",
        },
        "opened o",
    )


def _write_alerts(account: Account, sizes: Sizes) -> None:
    at = _spread_over_days(sizes.events)
    _insert(
        Receipt,
        {
            "trace_id": _UUID,
            "account": str(account.id),
            "integration": "p.integration",
            "service": "p.service",
            "source": "'generic'",
            "body": f"decode('{BODY.hex()}', 'hex')",
            "received_at": at,
            "state": str(int(WorkState.DONE)),
        },
        f"generate_series(1, {sizes.events}) n join place p on p.number = mod(n, {sizes.services}) + 1",
    )
    columns = f"id, integration_id as integration, service_id as service, received_at, {_TURN}"
    _number_rows("stored", columns, f"receipt where {_FILLED}", "id")
    incidents_each = sizes.incidents // sizes.services
    _insert(
        Event,
        {
            "unique_id": _SHORT_ID,
            "receipt": "r.id",
            "position": "0",
            "integration": "r.integration",
            "service": "r.service",
            "incident": "o.id",
            "incident_created": f"r.turn <= {incidents_each}",
            "message": "'Disk of db' || o.number || ' is 93 percent full'",
            "alert_type": str(int(AlertType.CRITICAL)),
            "entity_id": "'large-' || o.number",
            "alert": f"'{json.dumps({'payload': json.loads(BODY)['payload']})}'",
            "creation_date": "r.received_at",
        },
        f"stored r join opened o on o.service = r.service and o.turn = mod(r.turn, {incidents_each}) + 1",
    )


def _write_messages(account: Account, sizes: Sizes) -> None:
    """Write a message that was sent for each incident, with its notification."""
    owner, at = str(User.get(User.account == account).id), _spread_over_days(sizes.incidents)
    _insert(
        Message,
        {
            "message_id": "'large-' || n",
            "account": str(account.id),
            "user": owner,
            "channel": str(USER_EMAIL_CHANNEL),
            "created_at": at,
            "next_attempt_at": at,
            "attempts": "1",
            "state": str(int(MessageStatus.SENT)),
            "done_at": at,
        },
        f"generate_series(1, {sizes.incidents}) n",
    )
    _number_rows("sent", "id, done_at", "message where starts_with(message_id, 'large-')", "id")
    _insert(
        Notification,
        {
            "key": "'large:' || o.id",
            "incident": "o.id",
            "user": owner,
            "kind": "'escalation'",
            "reason": _encode_reason(Notification.reason),
            "not_before": "m.done_at",
            "state": str(int(NotificationStatus.SENT)),
            "done_at": "m.done_at",
            "message": "m.id",
        },
        "opened o join sent m on m.number = o.number",
    )


def _spread_over_days(count: int) -> str:
    """Return moments of the last ten days, in the order of the rows."""
    return f"now() - interval '10 days' * ({count} - n) / {count}"


def _encode_reason(field: peewee.Field) -> str:
    reason = make_reason("opened_by_alert", level="critical", integration="Alerts")
    return f"'{field.db_value(reason)}'"


def _insert(table: type[Table], values: Mapping[str, str], source: str) -> None:
    """Insert a row for each row of the source. `values` are SQL; other columns get the model's defaults."""
    fields = get_fields(table)
    columns = {fields[name].column_name: value for name, value in values.items()}
    defaults: dict[str, object] = {}
    for field, default in get_defaults(table).items():
        if field.name not in values:
            defaults[field.column_name] = field.db_value(default() if callable(default) else default)
    names = ", ".join(f'"{name}"' for name in (*columns, *defaults))
    selected = ", ".join((*columns.values(), *("%s" for _ in defaults)))
    db.execute_sql(
        f'INSERT INTO "{get_table_name(table)}" ({names}) SELECT {selected} FROM {source}',
        list(defaults.values()),
    )


def _number_rows(name: str, columns: str, source: str, order: str) -> None:
    """Create a table of this session that numbers the rows of a source from 1."""
    number = f"row_number() OVER (ORDER BY {order}) AS number"
    db.execute_sql(f"CREATE TEMP TABLE {name} AS SELECT {number}, {columns} FROM {source}")
    db.execute_sql(f"ANALYZE {name}")
