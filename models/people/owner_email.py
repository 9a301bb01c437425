"""Apply TOCSIN_OWNER_EMAIL when it is set or changed after the first start.

The last applied value is stored. So an owner whom people changed since then stays as it is, and a start is
not refused because of it. Before the first value is applied, only an owner for whom nobody chose an address
gets that of the setting.
"""

import peewee

from models.changes.record import Actor
from models.domain.enums import AccountRole, Way
from models.people import provisioning
from models.people.recorded_contacts import record_address
from models.store.store import store
from models.tables.accounts import Account, Secret, User, bump_version
from models.tables.users import ContactMethod
from runtime.late_logs import LateLogger
from runtime.setting_values import BadSetting

log = LateLogger()

# The name of the row with the last applied value.
OWNER_EMAIL = "owner_email"
# The address of an owner for whom nobody chose one: the default of the setting.
UNSET = "owner@localhost"


def is_applied(email: str) -> bool:
    """Return whether nothing is left to do: the setting has its default, or was applied before."""
    return email == UNSET or Secret.select().where(_is_stored(), Secret.value == email).exists()


def apply(email: str) -> bool:
    """Give the address to the owner of the first account. Return whether it changed.

    Needs a write transaction. Raises BadSetting if the setting was changed to the address of another member.
    If no value is stored and people chose the owner, the owner stays and a warning is logged.
    """
    owner = find_owner()
    if owner is None:
        return False
    member = provisioning.find_member(owner.account, email)
    is_chosen = owner.email != UNSET or member is not None
    if member != owner and is_chosen and not Secret.select().where(_is_stored()).exists():
        log.warning("TOCSIN_OWNER_EMAIL is not applied: the owner of the account has another address")
        store_applied(email)
        return False
    if member not in (None, owner):
        raise BadSetting(
            "TOCSIN_OWNER_EMAIL must not be the address of another member: to make this member the owner, run"
            " `tocsin account hand-over EMAIL`"
        )
    if member is None:
        _change_address(owner, email)
    store_applied(email)
    return member is None


def find_owner() -> User | None:
    """Return the owner of the first account; None: there is no account yet."""
    owners = User.select(User, Account).join(Account).where(User.role == AccountRole.OWNER)
    owner: User | None = owners.order_by(Account.id).get_or_none()
    return owner


def store_applied(email: str) -> None:
    """Store the applied value. Needs a write transaction."""
    if not Secret.update(value=email).where(_is_stored()).execute():
        Secret.create(name=OWNER_EMAIL, value=email)


def _is_stored() -> peewee.Expression:
    return Secret.name == OWNER_EMAIL


def _change_address(owner: User, email: str) -> None:
    """Change the address and the contacts with it. The operator of the host vouches for the new address."""
    is_same = (ContactMethod.user == owner) & (ContactMethod.value == owner.email)
    contact = {"value": email, "verified_value": email, **ContactMethod.raise_number()}
    changed = list(ContactMethod.select().where(is_same))
    ContactMethod.update(contact).where(is_same).execute()
    for row in changed:
        row.number += 1
        record_address(row, owner, Actor("TOCSIN_OWNER_EMAIL", Way.SYSTEM), store().now())
    user = {"email": email, "verified_email": email, **User.raise_number()}
    User.update(user).where(User.id == owner.id).execute()
    bump_version(owner.account_id)
