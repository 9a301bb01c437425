"""Record changes of contacts that are no requests of the interface: linked ones, and those of browsers."""

from datetime import datetime

from models.changes.differences import Difference
from models.changes.record import CHANGED, CREATED, Actor, ChangedObject, Content, add_change, build_person
from models.domain.channels import get_channel_name
from models.domain.enums import Way
from models.store.ids import make_short_id
from models.tables.accounts import User
from models.tables.users import ContactMethod


def record_created(contact: ContactMethod, user: User, now: datetime) -> None:
    """Record that a browser of this person became a contact. Needs a write transaction."""
    fields: list[Difference] = [
        {"field": "contact_type", "before": None, "after": contact.contact_type},
        {"field": "value", "secret": True},
    ]
    _record(contact, user, build_person(user, Way.PAGE), Content(CREATED, fields), now)


def record_address(contact: ContactMethod, user: User, actor: Actor, now: datetime) -> None:
    """Record that a contact of this person has another address. Needs a write transaction."""
    _record(contact, user, actor, Content(CHANGED, [{"field": "value", "secret": True}]), now)


def _record(contact: ContactMethod, user: User, actor: Actor, content: Content, now: datetime) -> None:
    name = get_channel_name(contact.contact_type)
    changed = ChangedObject("contact method", contact.unique_id, name, contact.number, user=user.id)
    add_change(user.account_id, now, actor, changed, content, make_short_id())
