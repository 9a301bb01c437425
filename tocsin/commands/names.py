"""Find accounts, users and objects by the names that people write in commands.

An object is named by its name, by TEAM/NAME, by TEAM/SERVICE/NAME for an integration, or by its unique_id.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Generic, NamedTuple, TypeVar

import click
import peewee

from models.domain.enums import AccountRole
from models.store.fields import ObjectTable
from models.tables.accounts import Account, User
from models.tables.schedules import Schedule
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy, Team
from tocsin.commands.output import to_printable
from tocsin.commands.read_only import BadArguments, NoResult

Row = TypeVar("Row", bound=ObjectTable)

# Names that an error about an unknown name lists.
MAX_LISTED = 10
# The longest name, as over HTTP.
MAX_NAME = 255


class Noun(NamedTuple, Generic[Row]):
    """A kind of object. `parents` are the tables above it, from the next one up to the account."""

    word: str
    plural: str
    table: type[Row]
    parents: tuple[type[peewee.Model], ...]

    def select(self, account_id: str | None) -> "peewee.ModelSelect[Row]":
        """Return a query of the objects of one account, or of all, with the rows above them."""
        query = self.table.select(self.table, *self.parents)
        for parent in self.parents:
            query = query.join(parent)
        if account_id is not None:
            query = query.where(Account.account_identifier == account_id)
        return query


TEAM = Noun("team", "teams", Team, (Account,))
SERVICE = Noun("service", "services", Service, (Team, Account))
POLICY = Noun("policy", "policies", EscalationPolicy, (Team, Account))
SCHEDULE = Noun("schedule", "schedules", Schedule, (Team, Account))
INTEGRATION = Noun("integration", "integrations", Integration, (Service, Team, Account))


def get_path(row: ObjectTable) -> list[str]:
    """Return the names of the team, of the service of an integration, and of the object."""
    if isinstance(row, Team):
        return [row.name]
    above = row.service if isinstance(row, Integration) else row.team
    return [*get_path(above), row.name]


def get_account(row: ObjectTable) -> Account:
    team = row if isinstance(row, Team) else row.team
    account: Account = team.account
    return account


def find(noun: Noun[Row], reference: str, account_id: str | None, among: Iterable[Row] | None = None) -> Row:
    """Return the only object that this reference names. Raise BadArguments, which lists what exists.

    `among` limits the objects, for example to those of a service.
    """
    rows = list(noun.select(account_id) if among is None else among)
    found = [row for row in rows if reference in list_references(row)]
    if not found:
        where = f" in account {account_id}" if account_id else ""
        raise BadArguments(f"no {noun.word} {reference}{where}; {list_known(noun, rows, reference)}")
    accounts = {get_account(row).account_identifier: get_account(row).name for row in found}
    if len(accounts) > 1:
        known = ", ".join(f"{identifier} ({name})" for identifier, name in accounts.items())
        raise BadArguments(
            f"more than one account has a {noun.word} {reference}; choose with --account: {known}"
        )
    if len(found) > 1:
        raise BadArguments(
            f"{len(found)} {noun.plural} are named {reference}; give one of: {', '.join(_qualify(found))}"
        )
    return found[0]


def list_references(row: ObjectTable) -> list[str]:
    """Return all texts that name an object: its unique_id, and its name with more and more names above it."""
    path = get_path(row)
    return [row.unique_id, *("/".join(path[start:]) for start in range(len(path)))]


def list_known(noun: Noun[Row], rows: Sequence[Row], reference: str = "") -> str:
    """Return a text that lists what exists, the names most similar to `reference` first."""
    names = {"/".join(get_path(row)) for row in rows}
    if not names:
        return f"there are no {noun.plural}"
    by_words = {word: name for name in sorted(names) for word in (name, name.rpartition("/")[2])}
    similar = [by_words[word] for word in get_close_matches(reference, by_words, MAX_LISTED)]
    ordered = list(dict.fromkeys([*similar, *sorted(names)]))
    more = f" and {len(ordered) - MAX_LISTED:,} more" if len(ordered) > MAX_LISTED else ""
    return f"there are: {', '.join(ordered[:MAX_LISTED])}{more}"


def _qualify(rows: Sequence[ObjectTable]) -> list[str]:
    """Return a text for each object that names only this one."""
    paths = ["/".join(get_path(row)) for row in rows]
    return [
        path if paths.count(path) == 1 else f"{row.unique_id} ({path})"
        for path, row in zip(paths, rows, strict=True)
    ]


def find_accounts(identifier: str | None) -> list[Account]:
    """Return the account with this identifier, or all accounts."""
    rows = Account.select().order_by(Account.id)
    found = list(rows.where(Account.account_identifier == identifier) if identifier else rows)
    if not found:
        raise BadArguments(f"no account {identifier}") if identifier else NoResult("there is no account")
    return found


def find_account(identifier: str | None) -> Account:
    """Return the account with this identifier, or the only one."""
    rows = list(Account.select().order_by(Account.id))
    found = [row for row in rows if identifier in (None, row.account_identifier)]
    known = ", ".join(f"{row.account_identifier} ({row.name})" for row in rows)
    if not found:
        text = f"no account {identifier}; there are: {known}" if rows else "no account yet"
        raise click.ClickException(to_printable(text))
    if len(found) > 1:
        raise click.UsageError(to_printable(f"choose an account with --account: {known}"))
    return found[0]


def find_user(who: str, account_id: str | None) -> User:
    """Return the user with this e-mail address or username, of one account or of all."""
    query = User.select(User, Account).join(Account).where(User.removed_at.is_null())
    if account_id:
        query = query.where(Account.account_identifier == account_id)
    word = who.strip().lower()
    found = list(query.where((peewee.fn.LOWER(User.email) == word) | (User.username == word)))
    if not found:
        known = [user.email for user in query.order_by(User.email)]
        similar = get_close_matches(word, known, MAX_LISTED)
        listed = list(dict.fromkeys([*similar, *known]))
        more = f" and {len(listed) - MAX_LISTED:,} more" if len(listed) > MAX_LISTED else ""
        there = f"; there are: {', '.join(listed[:MAX_LISTED])}{more}" if listed else ""
        raise click.ClickException(to_printable(f"no user {who}{there}"))
    if len(found) > 1:
        raise click.UsageError(f"{who} is a user of more than one account: choose the account with --account")
    only: User = found[0]
    return only


def find_owner(account_id: str | None) -> User:
    """Return the owner of the account."""
    owner: User = User.get(User.account == find_account(account_id), User.role == AccountRole.OWNER)
    return owner


def check_address(email: str) -> str:
    name, at, domain = email.partition("@")
    if not (name and at and domain) or any(char.isspace() for char in email):
        raise click.UsageError(f"{email} is not an e-mail address")
    return email


def split_name(name: str) -> tuple[str, str]:
    """Return the first name and the last name. Raise BadArguments if one is too long."""
    first, _, last = name.strip().partition(" ")
    if len(first) > MAX_NAME or len(last) > MAX_NAME:
        raise BadArguments(f"a name has at most {MAX_NAME} characters")
    return first, last.strip()
