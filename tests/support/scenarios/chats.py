"""People with a contact in Slack or Telegram, who are notified of an incident there."""

from datetime import UTC, datetime

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.reasons import make_reason
from models.load.lane import lock_incident
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.users import ContactMethod, NotificationRule
from models.write.apply import ApplyResult, apply
from pipeline import incidents
from tests.support.alerts import accept
from tests.support.world import World
from workers.alerts import process_lane

SLACK, TELEGRAM = 4, 101
ALICE_IN_SLACK, ALICE_IN_TELEGRAM = "U0ALICE01", "4711"


NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def add_contact(user: User, contact_type: int, value: str, *, only: bool = True) -> ContactMethod:
    """Give a user a verified contact with a rule; `only`: the rule replaces the user's other rules."""
    contact = provisioning.create_contact(user, "Chat", contact_type, value, NOON, is_verified=True)
    if only:
        NotificationRule.delete().where(NotificationRule.user == user).execute()
    NotificationRule.create(
        unique_id=make_uuid(), user=user, contact=contact, start_delay=0, urgency=1, creation_date=NOON
    )
    return contact


def open_incident(
    world: World, now: datetime, message: str = "Disk full on db1", **alert: object
) -> Notification:
    """Open an incident with an alert, and return its newest notification."""
    accept(world, now, message=message, alert_type="critical", entity_id=message, **alert)
    process_lane.run(world.service.id)
    found: Notification = Notification.select().order_by(Notification.id.desc()).get()
    return found


def move(incident: Incident, to: IncidentStatus, user: User, now: datetime) -> ApplyResult:
    """Change the status of an incident for a user."""
    with store().write_transaction():
        author = Author(AuthorKind.USER, user.first_name, user=user.id)
        context = lock_incident(incident.id, author, now)
        assert context is not None
        effects = incidents.change_status(context, to, make_reason("requested", by=user.first_name))
        return apply(ChangeSet(effects=list(effects)))
