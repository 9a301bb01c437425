"""Messages that are sent to a relay."""

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, ContactType
from models.domain.reasons import make_reason
from models.load.lane import lock_incident
from models.store.store import store
from models.tables.incidents import Incident
from models.write.apply import apply
from pipeline import incidents
from runtime.settings import load
from tests.support.alerts import accept
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.delivery.channels.email import EmailChannel

MAIL = ContactType.EMAIL


def settings(port):
    return load(
        {
            "TOCSIN_SMTP_HOST": "127.0.0.1",
            "TOCSIN_SMTP_PORT": str(port),
            "TOCSIN_SMTP_FROM": "tocsin@example.org",
            "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
        }
    )


def channel(port, deadline_s=5.0):
    return EmailChannel(settings(port), deadline_s)


@pytest.fixture
def deliver_to():
    """deliver_to(port): send messages to this relay from now on, with a new breaker."""

    def deliver_to(port: int, deadline_s: float = 5.0) -> deliver.ChannelRuntime:
        deliver.configure(settings(port))
        deliver._runtimes[MAIL].channel = channel(port, deadline_s)
        return deliver._runtimes[MAIL]

    yield deliver_to
    deliver._runtimes.clear()


def alert(world, now, entity="db1", message="Disk full on db1"):
    accept(world, now, message=message, alert_type="critical", entity_id=entity)
    process_lane.run(world.service.id)
    return Incident.select().order_by(Incident.id.desc()).get()


def move(incident, to, user, now):
    """Change the status of an incident in the name of a user."""
    with store().write_transaction():
        author = Author(AuthorKind.USER, user.first_name, user=user.id)
        context = lock_incident(incident.id, author, now)
        effects = incidents.change_status(context, to, make_reason("requested", by=user.first_name))
        apply(ChangeSet(effects=list(effects)))
