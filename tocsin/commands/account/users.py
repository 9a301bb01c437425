"""`tocsin user`: invite, add, rename and remove users, and help those who cannot sign in."""

import sys

import click

from models.changes.record import CHANGED, CREATED, ChangedObject
from models.contacts import invitations
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import AccountRole
from models.people import offboarding, provisioning
from models.sign_in import audit, people
from models.store.store import store
from models.tables.accounts import User, bump_version, get_display_name
from models.tables.services import Service
from models.tables.teams import Team
from runtime.redis_socket import get_url
from tocsin.commands.names import TEAM, check_address, find, find_account, find_owner, find_user, split_name
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_result, to_printable
from tocsin.commands.read_only import BadArguments
from tocsin.commands.writing import COMMAND, build_author, open_for_writing, record_change, write_transaction
from tocsin.server.sign_in_url import build_sign_in_url

# An account always has exactly one owner, so no user is added as an owner.
ROLES = [role.name.lower() for role in AccountRole if role is not AccountRole.OWNER]


@click.group()
def user() -> None:
    """Invite, add, rename and remove users, and help those who cannot sign in."""


@user.command("sign-in-link")
@click.argument("email", required=False)
@account_option
@as_json_option
def create_sign_in_link(email: str | None, account_id: str | None, as_json: bool) -> None:
    """Create a link that signs a user in to the pages, once and within an hour; without EMAIL, the owner."""
    with write_transaction() as settings:
        found = find_user(email, account_id) if email else find_owner(account_id)
        url = build_sign_in_url(settings, found, COMMAND)
    print_result({"link": url, "username": found.username}, as_json)


@user.command("reset-sign-in")
@click.argument("email")
@account_option
@as_json_option
def reset_sign_in(email: str, account_id: str | None, as_json: bool) -> None:
    """End all sessions of a user, and remove the password, the passkeys and the links to providers.

    API tokens stay: see `tocsin token revoke`.
    """
    with write_transaction():
        found = find_user(email, account_id)
        people.reset(found, store().now(), COMMAND)
    print_result({"username": found.username, "sign_in": "reset"}, as_json)


@user.command("add")
@click.argument("email")
@account_option
@click.option("--role", type=click.Choice(ROLES), default="user")
@as_json_option
def add_user(email: str, account_id: str | None, role: str, as_json: bool) -> None:
    """Add a user to an account."""
    with write_transaction():
        found = find_account(account_id)
        if provisioning.find_member(found, email) is not None:
            raise click.ClickException(to_printable(f"{email} is already a user of {found.name}"))
        now = store().now()
        user_row = provisioning.create_user(
            found, check_address(email), AccountRole[role.upper()], now, is_verified=True
        )
        after = {"role": user_row.role, "email": email}
        record_change(found.id, _identify(user_row, 1), CREATED, {}, after)
    print_result(
        {"account_id": found.account_identifier, "username": user_row.username, "role": role}, as_json
    )


@user.command("invite")
@click.argument("email")
@click.option("--team", "team_name", metavar="TEAM", required=True, help="Name or unique_id of the team.")
@click.option("--name", default="", help="First and last name of the person.")
@click.option("--role", type=click.Choice(ROLES), default="user", help="Role in the account.")
@account_option
@as_json_option
def invite_user(
    email: str, team_name: str, name: str, role: str, account_id: str | None, as_json: bool
) -> None:
    """Invite a person by mail to an account and into a team.

    A user of the account is added to the team, and gets no mail: role and name stay.
    """
    from workers import queue

    first_name, last_name = split_name(name)
    with open_for_writing() as settings, queue.connected(settings.redis_url or get_url(settings.home)):
        with store().write_transaction():
            team = find(TEAM, team_name, account_id)
            known = provisioning.find_member(team.account, check_address(email))
            now = store().now()
            if known is None:
                member = invitations.invite(
                    team.account, team, email, AccountRole[role.upper()], "An administrator of the host",
                    now, first_name=first_name, last_name=last_name,
                )  # fmt: skip
                audit.record(member.user, "invited", now, actor=COMMAND, detail=f"as {role} into {team.name}")
            else:
                member = invitations.add_to_team(team, known, now)
                audit.record(known, "team_changed", now, actor=COMMAND, detail=f"into {team.name}")
        queue.enqueue_delivery(USER_EMAIL_CHANNEL)
    action = "invited" if known is None else "added"
    print_result(
        {"username": member.user.username, "team": team.name, "action": action},
        as_json,
        f"{action} {email} to team {team.name}",
    )


@user.command("rename")
@click.argument("email")
@click.argument("name")
@account_option
@as_json_option
def rename_user(email: str, name: str, account_id: str | None, as_json: bool) -> None:
    """Change the name of a user: NAME is the first and the last name, for example "Alice Ames"."""
    first_name, last_name = split_name(name)
    if not first_name:
        raise BadArguments("the name must not be empty")
    with write_transaction():
        found = find_user(email, account_id)
        before = {"first_name": found.first_name, "last_name": found.last_name}
        after = {"first_name": first_name, "last_name": last_name}
        User.update({**after, **User.raise_number()}).where(User.id == found.id).execute()
        record_change(found.account_id, _identify(found, found.number + 1), CHANGED, before, after)
        bump_version(found.account_id)
    print_result(
        {"username": found.username, "first_name": first_name, "last_name": last_name},
        as_json,
        f"{found.email} is {name.strip()}",
    )


@user.command("remove")
@click.argument("email")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@account_option
@as_json_option
def remove_user(email: str, yes: bool, account_id: str | None, as_json: bool) -> None:
    """Remove a user from the account, with all references to the user in schedules, policies and rules.

    Incidents that are assigned to the user are escalated again.
    """
    # These load the pipeline, which no other command of this file needs.
    from pipeline.rules.action_table import names_user
    from workers import queue

    with open_for_writing() as settings, queue.connected(settings.redis_url or get_url(settings.home)):
        found = find_user(email, account_id)
        if found.role == AccountRole.OWNER:
            raise click.ClickException(
                "an account needs an owner: make another user the owner first (tocsin account hand-over)"
            )
        _confirm_removal(found, yes)
        with store().write_transaction():
            _lock_services(found)
            audit.record(found, "removed", store().now(), actor=COMMAND)
            offboarding.remove(found, build_author(), store().now(), names_user)
            bump_version(found.account_id)
        queue.enqueue_timers()
    print_result(
        {"username": found.username, "email": found.email, "action": "removed"},
        as_json,
        f"removed {found.email}",
    )


def _identify(user: User, number: int) -> ChangedObject:
    return ChangedObject("account member", user.unique_id, get_display_name(user), number, user=user.id)


def _lock_services(user: User) -> None:
    """Let workers finish their batches first. Later batches see the account without this user."""
    teams = Team.select(Team.id).where(Team.account == user.account)
    services = Service.select(Service.id).where(Service.team.in_(teams)).order_by(Service.id)
    list(store().for_update(services))


def _confirm_removal(user: User, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadArguments("without a terminal, removing a user needs --yes")
    question = to_printable(f"Remove {get_display_name(user)} ({user.email}) from {user.account.name}?")
    click.confirm(question, abort=True, err=True)
