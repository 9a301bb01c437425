"""The log of an outbound integration names incidents only to those who may read them."""

import pytest

from models.domain.applications import KINDS
from models.domain.enums import IntegrationType, OutboundEvent
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.accounts import CustomRole, User
from models.tables.incidents import Incident
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.services import Integration

KIND = KINDS["outgoing_webhook"].unique_id


@pytest.fixture
def deliveries(ask, world, now) -> str:
    """Return the path of the log of an integration that sends one incident."""
    made = provisioning.create_integration(world.service, "Tickets", KIND, world.alice, now)
    Integration.update(integration_type=IntegrationType.OUTBOUND).where(Integration.id == made.id).execute()
    target = OutboundTarget.create(
        integration=made, url="https://tickets.example.org/hook", secret="x", creation_date=now
    )
    body = {
        "title": "Disk full", "summary": "", "user": None, "escalation_policy": None,
        "service": world.service.unique_id, "urgency": 1,
    }  # fmt: skip
    assert ask("POST", "/api/incidents/", body).status_code == 201
    if not OutboundDelivery.select().exists():
        OutboundDelivery.create(
            unique_id=make_uuid(), target=target, incident=Incident.get(), event=OutboundEvent.TRIGGERED,
            created_at=now, next_attempt_at=now,
        )  # fmt: skip
    return f"/api/tocsin/integrations/{made.unique_id}/outbound/deliveries/"


@pytest.mark.parametrize(
    ("permissions", "shown"),
    [(("integration_read",), False), (("integration_read", "incident_read"), True)],
    ids=["integrations only", "incidents too"],
)
def test_the_incident_is_named_to_those_who_may_read_it(ask, world, now, deliveries, permissions, shown):
    row = {"account": world.account, "name": "Reader", "permissions": permissions, "creation_date": now}
    role = CustomRole.create(unique_id=make_uuid(), **row)
    User.update(custom_role=role).where(User.id == world.charlie.id).execute()

    (found,) = ask("GET", deliveries, who="charlie").json["results"]
    assert found["incident"] == (Incident.get().incident_number if shown else None)
