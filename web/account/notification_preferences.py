"""How Tocsin notifies a person: contact methods, notification and forwarding rules, contract section 3.2.

Members change their own contacts and rules. Owners and admins change those of all members.
"""

import contextlib
from typing import Any, TypedDict, cast

import peewee
from flask import current_app
from marshmallow import fields

from models.contacts import contact_codes
from models.contacts.messages import find_last_code
from models.contacts.toll_limits import TollLimits, find_toll_obstacle
from models.domain.channels import CHANNELS, CONTACT_TYPES, USER_EMAIL_CHANNEL, get_channel_name
from models.domain.enums import OtherContactType, Urgency, Verification
from models.domain.user_urls import find_network_problem
from models.people import provisioning
from models.tables.accounts import User, get_display_name
from models.tables.users import ContactCode, ContactMethod, ForwardingRule, NotificationRule
from runtime.settings import Settings
from web.account.message_limits import MIN_INTERVAL, count_code
from web.http import access
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.errors import Throttled, collect_refusals, reject
from web.http.fields import (
    MINUTES_LIMIT,
    Choice,
    Date,
    InputMoment,
    Moment,
    Number,
    Reference,
    Schema,
    Text,
    TimeZone,
    Username,
    explain,
)
from web.http.permissions import OWN, ReadWrite
from web.http.resource import Resource, lock_row
from web.teams.teams import get_account_member

MAX_CONTACTS = 20
ONLY_EMAIL = (
    "Only e-mail contacts (1) can be created by this operation. POST /api/tocsin/users/<username>/contacts/"
    " creates and verifies contacts of all types."
)


class ContactValues(TypedDict):
    """What the schema of contacts reads from a request."""

    name: str
    contact_type: int
    value: str


class ContactSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(required=True)
    creation_date = Date(dump_only=True, metadata=explain("The day on which the object was created, in UTC."))
    contact_type = Choice(
        names=CONTACT_TYPES,
        required=True,
        metadata=explain(
            "The channel of the contact. This operation creates only 1;"
            " `POST /api/tocsin/users/{username}/contacts/` creates all."
        ),
    )
    value = Text(
        required=True,
        limit=320,
        metadata=explain(
            "The address of the contact. For 1 it is an e-mail address of at most 254 characters. It is empty"
            " while a contact is not linked."
        ),
    )


class NotificationRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    creation_date = Moment(dump_only=True)
    start_delay = Number(
        min_value=0,
        max_value=MINUTES_LIMIT,
        metadata=explain(
            "Minutes until the contact is used; default: 0. It is not used if the incident is"
            " acknowledged before."
        ),
    )
    type = fields.Function(lambda rule: "")
    contact = Reference(
        required=True, blank=False, metadata=explain("The unique_id of a contact of the same person.")
    )
    urgency = Choice(
        Urgency, metadata=explain("The urgency of the incidents for which this rule is; default: 1.")
    )


class ForwardingRuleSchema(Schema):
    unique_id = Text(dump_only=True)
    creation_date = Moment(dump_only=True)
    time_zone = TimeZone(
        metadata=explain("The IANA name of the time zone in which clients show the dates; default: `UTC`.")
    )
    from_date = InputMoment(
        required=True, metadata=explain("From this time on, `to_user` is notified instead of `user`.")
    )
    to_date = InputMoment(required=True, metadata=explain("The end of the rule, later than `from_date`."))
    to_user = Username(
        required=True, blank=False, metadata=explain("The username of the member who is notified instead.")
    )
    created_by = Username(dump_only=True)
    user = Username(dump_only=True, metadata=explain("The username of the person to whom the rule belongs."))


class UserResource(Resource[Row, User]):
    """Base of the resources that belong to a person."""

    def get_parent(self, **ids: str) -> User:
        return access.access_user(viewer(), ids["username"])

    def require_permission(self, parent: User, row: Row | None) -> None:
        if parent.id != viewer().user.id:
            access.access_account(viewer())

    def require_write(self, parent: User) -> None:
        # An admin must not change how the owner is notified.
        access.require_rank(viewer(), parent.role)


class Contacts(UserResource[ContactMethod]):
    """The contact methods of a person.

    A create of the first e-mail contact also creates notification rules.
    """

    model = ContactMethod
    noun = "contact method"
    secrets = ("value",)
    schema = ContactSchema()
    parent_field = ContactMethod.user
    id_arg = "contact_id"
    permissions = ReadWrite(OWN, OWN)

    def check_values(
        self, values: dict[str, object], parent: User, row: ContactMethod | None
    ) -> dict[str, object]:
        stored = {"contact_type": row.contact_type, "value": row.value} if row is not None else {}
        contact = cast(ContactValues, {**stored, **values})
        has_new_type = contact["contact_type"] != stored.get("contact_type")
        if has_new_type and contact["contact_type"] != USER_EMAIL_CHANNEL:
            reject("contact_type", ONLY_EMAIL)
        if has_new_type or contact["value"] != stored["value"]:
            check_address(parent, contact["contact_type"], contact["value"])
        # The same text may be the address of another person in another channel.
        return {**values, "verified_value": None} if row is not None and has_new_type else values

    def insert(self, parent: User, values: dict[str, object]) -> ContactMethod:
        self.require_room(parent)
        user = User.get_by_id(parent.id)
        contact = provisioning.create_contact(parent, **cast(ContactValues, values), now=now())
        _verify_or_send_code(contact, user)
        return contact

    def require_room(self, parent: User) -> None:
        # Else requests at the same time could exceed the limit.
        lock_row(parent)
        if ContactMethod.select().where(ContactMethod.user == parent).count() >= MAX_CONTACTS:
            reject("contact", f"A person can have at most {MAX_CONTACTS} contact methods.")

    def check_return(self, parent: User, values: dict[str, object]) -> None:
        """A contact of any type may come back. It is not verified, so it gets only its code."""

    def get_name(self, row: ContactMethod) -> str:
        # People name a contact by its number or address.
        return get_channel_name(row.contact_type)

    def change(self, row: ContactMethod, values: dict[str, object]) -> None:
        super().change(row, values)
        changed = ContactMethod.get_by_id(row.id)
        if changed.contact_type != row.contact_type:
            ContactCode.delete().where(ContactCode.contact == row.id).execute()
        if (changed.contact_type, changed.value) != (row.contact_type, row.value):
            _verify_or_send_code(changed, User.get_by_id(row.user_id))


def _verify_or_send_code(contact: ContactMethod, user: User) -> None:
    """Send a code to a contact that is not verified. Above the limits, the person asks for it later.

    A contact with the person's own verified address is verified for itself: that address may change.
    """
    channel = CHANNELS.get(contact.contact_type)
    if channel is None or channel.verification is not Verification.CODE:
        return
    if contact_codes.is_verified(contact, user):
        contact_codes.verify_contacts(user.id, contact.value)
        return
    last = find_last_code(contact)
    if last is not None and last > now() - MIN_INTERVAL:
        return
    with contextlib.suppress(Throttled):
        count_code(viewer().user, contact.contact_type, contact.value)
        contact_codes.send_code(contact, get_display_name(viewer().user), now())


def check_address(user: User, contact_type: int, address: str) -> None:
    """Raise BadRequest if a contact of this type cannot have this address, or gets it in another way."""
    channel = CHANNELS.get(contact_type)
    if channel is None:
        reject("contact_type", "Nothing can be sent to contacts of this type yet.")
    if channel.verification is not Verification.CODE:
        reject("value", "The address of a contact of this type cannot be written: it is linked.")
    form = channel.address
    if len(address) > form.limit:
        reject("value", f"Longer than maximum length {form.limit}.")
    if not form.pattern.fullmatch(address):
        reject("value", f"Not {form.words}.")
    settings: Settings = current_app.config["SETTINGS"]
    # The operator's own server of ntfy may be anywhere.
    is_own = contact_type == OtherContactType.NTFY and address.startswith(f"{settings.ntfy_url}/")
    if not is_own and (problem := form.check(address)):
        reject("value", problem)
    if not is_own and (problem := find_network_problem(address, settings.webhook_networks)):
        reject("value", problem)
    limits = TollLimits.from_settings(settings)
    obstacle = find_toll_obstacle(
        user.account_id, contact_type, address, now(), is_requested=True, limits=limits
    )
    if obstacle is not None:
        reject("value", str(obstacle))


class NotificationRules(UserResource[NotificationRule]):
    """The contacts through which a person is notified, and the delays."""

    model = NotificationRule
    noun = "notification rule"
    schema = NotificationRuleSchema()
    parent_field = NotificationRule.user
    id_arg = "notification_rule_id"
    permissions = ReadWrite(OWN, OWN)

    def select_rows(self, parent: User) -> "peewee.ModelSelect[NotificationRule]":
        rules = NotificationRule.select(NotificationRule, ContactMethod).join(ContactMethod)
        return rules.where(NotificationRule.user == parent)

    def check_values(
        self, values: dict[str, Any], parent: User, row: NotificationRule | None
    ) -> dict[str, object]:
        if "contact" in values:
            values["contact"] = _find_contact(parent, values["contact"])
        if row is None:
            values.setdefault("urgency", Urgency.HIGH)
        return values


def _find_contact(user: User, contact_id: str) -> ContactMethod:
    contact: ContactMethod | None = (
        ContactMethod.select()
        .where(ContactMethod.user == user, ContactMethod.unique_id == contact_id)
        .first()
    )
    if contact is None:
        reject("contact", f"{contact_id} is not a contact method of this person.")
    return contact


class ForwardingRules(UserResource[ForwardingRule]):
    """The persons who are notified instead of this person for some time (contract 4.4)."""

    model = ForwardingRule
    noun = "forwarding rule"
    schema = ForwardingRuleSchema()
    parent_field = ForwardingRule.user
    id_arg = "forwarding_rule_id"
    permissions = ReadWrite(OWN, OWN)

    def select_rows(self, parent: User) -> "peewee.ModelSelect[ForwardingRule]":
        to, by = User.alias(), User.alias()
        rules = (
            ForwardingRule.select(ForwardingRule, to, by)
            .join(to, on=ForwardingRule.to_user == to.id)
            .join_from(ForwardingRule, by, on=ForwardingRule.created_by == by.id)
        )
        return rules.where(ForwardingRule.user == parent)

    def check_values(
        self, values: dict[str, Any], parent: User, row: ForwardingRule | None
    ) -> dict[str, object]:
        begins, ends = (values.get(name) or getattr(row, name) for name in ("from_date", "to_date"))
        with collect_refusals() as check:
            if "to_user" in values:
                with check():
                    values["to_user"] = _find_target(parent, values["to_user"])
            with check():
                if ends <= begins:
                    reject("to_date", "Must be later than from_date.")
        return values

    def insert(self, parent: User, values: dict[str, object]) -> ForwardingRule:
        return super().insert(parent, {"created_by": viewer().user, **values})


def _find_target(user: User, username: str) -> User:
    """Return the member to whom the messages of a person are forwarded."""
    found = get_account_member(viewer().account, username, "to_user")
    if found == user:
        reject("to_user", "A person cannot forward messages to the same person.")
    return found


CONTACTS = Contacts()
NOTIFICATION_RULES = NotificationRules()
FORWARDING_RULES = ForwardingRules()
