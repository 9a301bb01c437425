"""`tocsin test-message`: send a test message in the same way as a notification."""

import sys
from datetime import datetime

import click

from models.contacts.messages import create_test_message
from models.domain.channels import CHANNELS
from models.domain.enums import MessageStatus
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactMethod
from tocsin.commands.names import find_user
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_json_list, to_printable
from tocsin.commands.writing import open_for_writing
from workers.delivery import deliver
from workers.delivery.outbox import CLAIM


@click.command("test-message")
@click.argument("who", metavar="USERNAME_OR_EMAIL")
@account_option
@as_json_option
def test_message(who: str, account_id: str | None, as_json: bool) -> None:
    """Send a test message to each contact of a user to which Tocsin can send, and print the outcomes.

    Exit code 1: at least one test message was not sent.
    """
    with open_for_writing() as settings:
        deliver.configure(settings)
        results = [send_test(contact) for contact in list_contacts(find_user(who, account_id))]
    if as_json:
        print_json_list(results)
    for result in () if as_json else results:
        click.echo(to_printable(f"{result['contact']}: {result['outcome']} ({result['message_id']})"))
    sys.exit(0 if all(result["state"] == "sent" for result in results) else 1)


def list_contacts(user: User) -> list[ContactMethod]:
    query = ContactMethod.select().where(
        ContactMethod.user == user, ContactMethod.contact_type.in_(list(CHANNELS))
    )
    contacts = list(query.order_by(ContactMethod.id))
    if not contacts:
        raise click.ClickException("this user has no contact to which Tocsin can send")
    return contacts


def send_test(contact: ContactMethod) -> dict[str, object]:
    """Send a test message. It is stored as claimed, so that no worker sends it a second time."""
    with store().write_transaction():
        now: datetime = store().now()
        created = create_test_message(contact, "An administrator of the host", now, claimed_until=now + CLAIM)
    deliver.send_claimed(created)
    message = Message.get_by_id(created.id)
    return {
        "contact": contact.name,
        "message_id": message.message_id,
        "state": MessageStatus(message.state).name.lower(),
        "outcome": None if message.outcome is None else str(message.outcome),
    }
