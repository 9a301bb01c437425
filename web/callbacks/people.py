"""Answer people who write to Tocsin at a provider: they press a button, or send the code that links them."""

from datetime import datetime

from models.contacts.contact_links import enter_link_code
from models.domain.channels import CONTACT_TYPES
from models.store.store import store
from web.callbacks.answer import NOT_FOUND, Answer, answer, find_contacts

# Longer texts are no code.
MAX_CODE = 40


def press(contact_type: int, address: str, notification: int, action: str, now: datetime, url: str) -> Answer:
    """Do an action for the person with this address. Someone who is not linked only gets a link to join.

    `url` is the public URL of this installation.
    """
    contacts = find_contacts(contact_type, address)
    if not contacts:
        return Answer(explain_joining(contact_type, url))
    found = (answer(contact, notification, action, now) for contact in contacts)
    # A person may have contacts in several accounts.
    return next((each for each in found if each != NOT_FOUND), NOT_FOUND)


def enter_text(contact_type: int, address: str, text: str, now: datetime, url: str) -> str:
    """Link the address if the text is a code. Return what Tocsin found."""
    words = text.split()
    code = words[-1] if words and len(words) <= 2 and len(text) <= MAX_CODE else ""
    with store().write_transaction():
        linked = enter_link_code(contact_type, code, address, now) if code else None
    name = CONTACT_TYPES[contact_type]
    if linked is not None:
        return f"Done: Tocsin now notifies you here in {name}."
    if find_contacts(contact_type, address):
        return f"Tocsin notifies you here in {name}. You need not write anything."
    return explain_joining(contact_type, url)


def explain_joining(contact_type: int, url: str) -> str:
    name = CONTACT_TYPES[contact_type]
    return (
        f"This {name} account is not linked to Tocsin. Add it as a contact at {url}, and send the code here."
    )
