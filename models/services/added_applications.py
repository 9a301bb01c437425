"""Add the IDs of applications that the catalogue does not have, as applications of a kind that it has.

A team that moves brings the IDs of its old account, in its configuration and in its programs.
"""

from datetime import datetime

import peewee

from models.domain.applications import APPLICATIONS
from models.store.store import store
from models.tables.accounts import Account
from models.tables.services import AddedApplication

# IDs of an account. All of them are read for the list of applications.
MAX_ADDED = 1_000


class NotAdded(ValueError):
    """The ID cannot be added; the text says why."""


def add(account: Account, unique_id: str, kind: str, now: datetime) -> AddedApplication:
    """Add an ID to an account. `kind` is one of the catalogue. Raises NotAdded."""
    if unique_id in APPLICATIONS:
        raise NotAdded(f"The catalogue has this application: {APPLICATIONS[unique_id].name}.")
    # Two requests could add the same ID, or exceed the limit.
    store().for_update(Account.select(Account.id).where(Account.id == account.id)).first()
    known = find_kind(account, unique_id)
    if known is not None:
        raise NotAdded(f"This id was added before, as {known}. To change its kind, remove it first.")
    if list_added(account).count() >= MAX_ADDED:
        raise NotAdded(f"No more than {MAX_ADDED} are allowed.")
    return AddedApplication.create(account=account, unique_id=unique_id, kind=kind, creation_date=now)


def find_kind(account: Account, unique_id: str) -> str | None:
    """Return the kind of an added ID; None: the account did not add it."""
    found = list_added(account).where(AddedApplication.unique_id == unique_id).first()
    return found.kind if found is not None else None


def list_added(account: Account) -> "peewee.ModelSelect[AddedApplication]":
    """Return a query of the IDs that an account added."""
    return AddedApplication.select().where(AddedApplication.account == account)
