"""Link contacts at a provider: the person sends a code to Tocsin there, and so proves whose address it is.

For providers whose addresses nobody knows by heart, such as the number of a chat. Only a digest of the code
is stored.
"""

import secrets
from datetime import datetime, timedelta

from models.changes.record import build_person
from models.domain.enums import Way
from models.people.provisioning import create_default_rules
from models.people.recorded_contacts import record_address
from models.store import bulk
from models.store.ids import digest
from models.tables.users import ContactLink, ContactMethod

LIFE = timedelta(minutes=10)
# Characters that cannot be mistaken for one another. A code is found by its digest, so it is long.
_CHARACTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_LENGTH = 12


def create_link_code(contact: ContactMethod, now: datetime) -> tuple[str, datetime]:
    """Return a new code for this contact and the end of its life. The code before it is no longer valid.

    Needs a write transaction.
    """
    code = "".join(secrets.choice(_CHARACTERS) for _ in range(_LENGTH))
    row = {"contact": contact.id, "digest": digest(code), "expires_at": now + LIFE}
    bulk.insert(ContactLink, [row], conflict=["contact"], replacing=["digest", "expires_at"])
    return code, now + LIFE


def enter_link_code(contact_type: int, code: str, address: str, now: datetime) -> ContactMethod | None:
    """Give the contact of this code the address, as verified; None: the code is not valid.

    The provider must have said that the code came from this address. A contact that was never verified before
    gets its notification rules. Needs a write transaction.
    """
    found: ContactLink | None = (
        ContactLink.select(ContactLink, ContactMethod)
        .join(ContactMethod)
        .where(
            ContactLink.digest == digest(code.strip().upper()),
            ContactLink.expires_at > now,
            ContactMethod.contact_type == contact_type,
        )
        .first()
    )
    # Of two requests with one code, only one deletes it.
    if found is None or not ContactLink.delete().where(ContactLink.id == found.id).execute():
        return None
    linked_to = {"value": address, "verified_value": address, **ContactMethod.raise_number()}
    changed = ContactMethod.update(linked_to)
    changed.where(ContactMethod.id == found.contact_id).execute()
    linked: ContactMethod = ContactMethod.get_by_id(found.contact_id)
    record_address(linked, linked.user, build_person(linked.user, Way.LINK), now)
    if found.contact.verified_value is None:
        create_default_rules(linked, now)
    return linked


def find_link_end(contact: ContactMethod, now: datetime) -> datetime | None:
    """Return when the link code of a contact ends; None: it has no valid one."""
    end: datetime | None = (
        ContactLink.select(ContactLink.expires_at)
        .where(ContactLink.contact == contact, ContactLink.expires_at > now)
        .scalar()
    )
    return end
