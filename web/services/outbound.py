"""Where an outbound integration sends incidents, and its deliveries (under /api/tocsin/integrations/)."""

from datetime import datetime

import peewee
from flask import current_app
from marshmallow import ValidationError, fields, validates

from models.domain.channels import OUTBOUND_CHANNEL
from models.domain.enums import IncidentStatus, IntegrationType, OutboundEvent, OutboundStatus
from models.domain.reasons import Reason
from models.domain.user_urls import MAX_URL, find_network_problem, find_problem
from models.keys.webhook_secrets import create_secret
from models.store.ids import make_uuid
from models.tables.accounts import Account
from models.tables.incidents import Incident
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.services import Integration, Service
from models.tables.teams import Team
from web.http import access, paging, serialization
from web.http.auth import now, viewer
from web.http.errors import Forbidden, NotFound, reject
from web.http.fields import Moment, Number, Schema, Text, explain
from web.http.rate_limit import Limits, enforce
from web.http.resource import config_transaction, lock_row, lock_services
from web.http.writing import Mode, NumberedAnswer, Part, Writing, begin_change, read_update, read_writing
from web.services.own_integration import access_integration
from workers import queue

MAX_TARGETS = 100
RESEND_LIMITS: Limits = ((60, 60.0),)


class OutboundTargetSchema(Schema):
    """The target of an outbound integration."""

    url = Text(
        required=True,
        limit=MAX_URL,
        metadata=explain("The URL to which changes of incidents are sent, by POST."),
    )
    secret = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("The secret that signs the requests. Only the answer to the first PUT shows it."),
    )
    failures = Number(
        dump_only=True, metadata=explain("How many attempts failed since the last one with success.")
    )
    retry_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("Nothing is sent before this time, because attempts failed; null: no delay."),
    )

    @validates("url")
    def _require_form(self, url: str, **kwargs: object) -> None:
        if problem := find_problem(url):
            raise ValidationError(problem)


class OutboundSecretSchema(Schema):
    secret = Text(
        dump_only=True, metadata=explain("The new secret that signs the requests. Only this answer shows it.")
    )


class OutboundDeliverySchema(Schema):
    """A change of an incident that an outbound integration sends."""

    unique_id = Text(dump_only=True, metadata=explain("The id of the delivery: its header `webhook-id`."))
    incident = Number(
        dump_only=True,
        metadata=explain("The number of the incident; null without the permission `incident_read`."),
        allow_none=True,
    )
    event_type = Text(dump_only=True, metadata=explain("`triggered`, `acknowledged` or `resolved`."))
    state = Text(
        dump_only=True,
        metadata=explain(
            "`pending`; `sent`; `failed` after 24 hours; `replaced` by a newer change of the incident;"
            " `filtered` by the outgoing rules, or because the incident is a drill."
        ),
    )
    reason = Text(
        dump_only=True, allow_none=True, metadata=explain("The result of the last attempt; null: none yet.")
    )
    attempts = Number(dump_only=True, metadata=explain("How often it was sent."))
    creation_date = Moment(dump_only=True)
    last_attempt_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When it was sent last; null: not yet.")
    )


class OutboundDeliveriesSchema(paging.PageSchema):
    results = fields.List(fields.Nested(OutboundDeliverySchema), dump_only=True)


TARGET = OutboundTargetSchema()
SECRET = OutboundSecretSchema()
DELIVERY = OutboundDeliverySchema()
DELIVERIES = OutboundDeliveriesSchema()


def retrieve(outbound_id: str) -> dict[str, object]:
    """Get where an outbound integration sends incidents."""
    return _show(access_integration(outbound_id))


def update(outbound_id: str) -> dict[str, object]:
    """Update where an outbound integration sends incidents. The first time, the answer has a new secret."""
    integration = access_integration(outbound_id)
    return write(integration, serialization.read_as(TARGET)["url"], read_update())


def write(integration: Integration, url: str, writing: Writing) -> dict[str, object]:
    """Change the URL of an outbound integration, and return its target. The first time, with a new secret."""
    if integration.integration_type != IntegrationType.OUTBOUND:
        reject("integration", "Only outbound integrations have a target.")
    if problem := find_network_problem(url, current_app.config["SETTINGS"].webhook_networks):
        reject("url", problem)
    with config_transaction():
        lock_services(Service.id == integration.service_id)
        _begin_change(integration, writing)
        target = OutboundTarget.get_or_none(OutboundTarget.integration == integration)
        if target is not None:
            target.url, target.failures, target.retry_at = url, 0, None
            target.save(only=["url", "failures", "retry_at"])
            shown = _show(integration)
        else:
            shown = _create(integration, url)
        Service.update(has_outbound=True).where(Service.id == integration.service_id).execute()
    queue.enqueue_delivery(OUTBOUND_CHANNEL)
    return shown


def _create(integration: Integration, url: str) -> dict[str, object]:
    # Else requests at the same time could exceed the limit.
    account = lock_row(Account.get_by_id(viewer().account.id))
    count = OutboundTarget.select().join(Integration).join(Service).join(Team).where(Team.account == account)
    if count.count() >= MAX_TARGETS:
        reject("url", f"An account can have at most {MAX_TARGETS} targets.")
    secret = create_secret()
    OutboundTarget.create(integration=integration, url=url, secret=secret, creation_date=now())
    return NumberedAnswer(integration.number, {**_show(integration), "secret": secret})


def destroy(outbound_id: str) -> None:
    """Delete the target of an outbound integration, with its deliveries. It sends nothing any more."""
    delete(access_integration(outbound_id), read_writing(Mode.DELETE))


def delete(integration: Integration, writing: Writing) -> None:
    """Delete the target of an outbound integration, with its deliveries."""
    target = _find_target(integration)
    with config_transaction():
        lock_services(Service.id == integration.service_id)
        _begin_change(integration, writing)
        target.delete_instance()
        others = (
            OutboundTarget.select().join(Integration).where(Integration.service == integration.service_id)
        )
        has_others = others.exists()
        Service.update(has_outbound=has_others).where(Service.id == integration.service_id).execute()


def renew_secret(outbound_id: str) -> dict[str, object]:
    """Create a new secret of an outbound integration. The secret before it is no longer used."""
    return replace_secret(access_integration(outbound_id), read_writing(Mode.PATCH))


def replace_secret(integration: Integration, writing: Writing) -> dict[str, object]:
    """Replace the secret of an outbound integration, and return the new one."""
    target = _find_target(integration)
    secret = create_secret()
    with config_transaction():
        _begin_change(integration, writing)
        OutboundTarget.update(secret=secret).where(OutboundTarget.id == target.id).execute()
    return NumberedAnswer(integration.number, {"secret": secret})


def list_deliveries(outbound_id: str) -> dict[str, object]:
    """List what an outbound integration sent and will send, newest first, page by page."""
    integration = access_integration(outbound_id)
    target = OutboundTarget.get_or_none(OutboundTarget.integration == integration)
    rows = _select_deliveries().where(OutboundDelivery.target == target)
    shows_incidents = _may_read_incidents(integration)
    count = OutboundDelivery.select().where(OutboundDelivery.target == target).count()
    ordered = rows.order_by(OutboundDelivery.id.desc())

    def show(found: list[OutboundDelivery]) -> list[dict[str, object]]:
        return [_show_delivery(row, shows_incidents=shows_incidents) for row in found]

    return paging.build_page(ordered, paging.read_page(), show, count=count)


def resend(outbound_id: str, delivery_id: str) -> dict[str, object]:
    """Send the incident of a delivery again. The new delivery has the present state of the incident."""
    integration = access_integration(outbound_id)
    target = _find_target(integration)
    rows = _select_deliveries().where(OutboundDelivery.target == target)
    found = access.find(rows, OutboundDelivery.unique_id, delivery_id)
    moment = now()
    enforce(RESEND_LIMITS, viewer().account, "outbound resend", moment)
    with config_transaction():
        # Changes of the incident lock the service too. So this state is the newest one.
        lock_services(Service.id == found.incident.service_id)
        status = Incident.select(Incident.status).where(Incident.id == found.incident_id).scalar()
        event = OutboundEvent[IncidentStatus(status).name]
        created = OutboundDelivery.create(
            unique_id=make_uuid(),
            target=target,
            incident=found.incident,
            event=event.value,
            created_at=moment,
            next_attempt_at=moment,
        )
    queue.enqueue_delivery(OUTBOUND_CHANNEL)
    return _show_delivery(created, shows_incidents=_may_read_incidents(integration))


def _find_target(integration: Integration) -> OutboundTarget:
    target: OutboundTarget | None = OutboundTarget.get_or_none(OutboundTarget.integration == integration)
    if target is None:
        raise NotFound
    return target


def _begin_change(integration: Integration, writing: Writing) -> None:
    """Raise the number of the integration, a part of which is the target."""
    found = begin_change(integration, writing, PART)
    integration.number = found.number


def _select_deliveries() -> "peewee.ModelSelect[OutboundDelivery]":
    return OutboundDelivery.select(OutboundDelivery, Incident).join(Incident)


def _show(integration: Integration) -> dict[str, object]:
    """Return the target of an integration for an answer. NotFound without one."""
    target = _find_target(integration)
    retry_at: datetime | None = target.retry_at
    values = {
        "url": target.url,
        "secret": None,
        "failures": target.failures,
        "retry_at": retry_at if retry_at is not None and retry_at > now() else None,
    }
    return NumberedAnswer(integration.number, values)


def _may_read_incidents(integration: Integration) -> bool:
    """Return whether the viewer may also read the incidents that the integration sends."""
    try:
        access.require_permission(viewer(), integration.service.team_id, "incident_read")
    except Forbidden:
        return False
    return True


def _show_delivery(row: OutboundDelivery, *, shows_incidents: bool) -> dict[str, object]:
    reason: Reason | None = row.outcome
    return {
        "unique_id": row.unique_id,
        "incident": row.incident.incident_number if shows_incidents else None,
        "event_type": row.event,
        "state": OutboundStatus(row.state).name.lower(),
        "reason": None if reason is None else str(reason),
        "attempts": row.attempts,
        "creation_date": row.created_at,
        "last_attempt_at": row.last_attempt_at,
    }


def _describe(integration: Integration) -> dict[str, object]:
    target = OutboundTarget.get_or_none(OutboundTarget.integration == integration)
    return {} if target is None else {"url": target.url, "secret": target.secret}


def _show_dumped(integration: Integration) -> object:
    return TARGET.dump(_show(integration))


# URLs of webhooks often contain the key of their owner.
PART = Part("integration", "outbound", _describe, _show_dumped, ("url", "secret"))
