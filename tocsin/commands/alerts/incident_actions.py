"""`tocsin ack`, `resolve`, `note`, `snooze` and `reassign` change an incident from the command line."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import click

from models.domain.effects import AddNote, Author, Effect, IncidentState, RecordLog
from models.domain.enums import AuthorKind, IncidentStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.load.oncall_config import load_people, lock_next_target
from models.reports import trace_ids
from models.store.ids import make_short_id
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident
from models.tables.teams import EscalationPolicy
from models.write.change_incident import Decide, change_incident
from pipeline import incidents as decisions
from runtime.redis_socket import get_url
from tocsin.commands import names
from tocsin.commands.options import account_option, as_json_option
from tocsin.commands.output import print_result, to_printable
from tocsin.commands.read_only import BadArguments
from tocsin.commands.times import DurationType
from tocsin.commands.writing import build_author, open_for_writing
from workers import queue

# As over HTTP.
MAX_SNOOZE = timedelta(days=30)
MAX_NOTE = 16_384

incident_argument = click.argument("number", metavar="INCIDENT")
user_option = click.option(
    "--user", "who", metavar="WHO", help="Do it in the name of this user; default: TOCSIN_USER, or no user."
)


class _Named(NamedTuple):
    """What the words of a command name: an incident, and the user in whose name it is changed."""

    number: str
    who: str | None
    account_id: str | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class _Target:
    """An incident to change, with the author of the change."""

    incident: Incident
    author: Author
    account_id: str
    now: datetime
    as_json: bool

    def change(self, decide: Decide, policies: Iterable[int] = ()) -> IncidentState:
        """Change the incident, and return its state before."""
        before = change_incident(
            self.incident.id, self.author, decide, self.now, queue.enqueue_deliveries, policies=policies
        )
        if before is None:
            raise click.ClickException(f"there is no incident #{self.incident.incident_number}")
        return before

    def report(self, action: str, text: str, **more: object) -> None:
        """Print what was done: `text` follows the title of the incident."""
        number, title = self.incident.incident_number, self.incident.title
        result = {"incident_number": number, "title": title, "action": action, **more}
        print_result(result, self.as_json, f"incident #{number} {title} {text}")


@contextmanager
def _opened(named: _Named) -> Iterator[_Target]:
    """Open the database and the queue, and find the incident. Raise if there is none."""
    number = trace_ids.parse_number(named.number)
    if number is None:
        raise BadArguments(f"{named.number} is not the number of an incident: write a number such as 12")
    with open_for_writing() as settings, queue.connected(settings.redis_url or get_url(settings.home)):
        account = names.find_account(named.account_id)
        row = Incident.get_or_none(Incident.account == account, Incident.incident_number == number)
        if row is None:
            raise click.ClickException(f"there is no incident #{number}")
        who = named.who or settings.user
        author = build_author()
        if who:
            author = _build_author_of(names.find_user(who, account.account_identifier), author.name)
        yield _Target(row, author, account.account_identifier, store().now(), named.as_json)


def _build_author_of(user: User, command: str) -> Author:
    """Return a user as the author, and say that it was by a command."""
    return Author(AuthorKind.COMMAND, f"{get_display_name(user)} ({command})", user=user.id)


@click.command("ack")
@incident_argument
@user_option
@account_option
@as_json_option
def acknowledge(number: str, who: str | None, account_id: str | None, as_json: bool) -> None:
    """Acknowledge an incident by its number: 12 or "#12"."""
    _change_status(_Named(number, who, account_id, as_json), IncidentStatus.ACKNOWLEDGED)


@click.command("resolve")
@incident_argument
@user_option
@account_option
@as_json_option
def resolve(number: str, who: str | None, account_id: str | None, as_json: bool) -> None:
    """Resolve an incident by its number: 12 or "#12"."""
    _change_status(_Named(number, who, account_id, as_json), IncidentStatus.RESOLVED)


@click.command("note")
@incident_argument
@click.argument("text")
@user_option
@account_option
@as_json_option
def note(number: str, text: str, who: str | None, account_id: str | None, as_json: bool) -> None:
    """Write a note on an incident, in the name of a user: "-" reads it from standard input."""
    text = (sys.stdin.read(MAX_NOTE + 1) if text == "-" else text).strip()
    if not text or len(text) > MAX_NOTE:
        raise BadArguments(f"a note has 1 to {MAX_NOTE:,} characters")
    with _opened(_Named(number, who, account_id, as_json)) as target:
        if target.author.user is None:
            raise BadArguments("a note needs an author: give --user, or set TOCSIN_USER")

        def decide(context: IncidentContext) -> tuple[Effect, ...]:
            incident, author, now = context.incident.unique_id, context.author, context.now
            log = RecordLog(incident, now, "noted", make_reason("note_written", by=author.name), author)
            return (AddNote(incident, make_short_id(), text, now, author.user), log)

        target.change(decide)
        target.report("noted", "has a new note")


@click.command("snooze")
@incident_argument
@click.argument("duration", type=DurationType(MAX_SNOOZE))
@user_option
@account_option
@as_json_option
def snooze(number: str, duration: timedelta, who: str | None, account_id: str | None, as_json: bool) -> None:
    """Silence an acknowledged incident for a time such as 30m, 2h or 1d. Then it is triggered again."""
    with _opened(_Named(number, who, account_id, as_json)) as target:
        until = target.now + duration

        def decide(context: IncidentContext) -> tuple[Effect, ...]:
            if obstacle := decisions.check_snooze(context.incident):
                raise click.ClickException(f"incident #{context.incident.number}: {obstacle}")
            return decisions.snooze(context, until)

        target.change(decide)
        target.report("snoozed", f"is snoozed until {until:%Y-%m-%d %H:%M:%S} UTC", snoozed_till=until)


@click.command("reassign")
@incident_argument
@click.option("--to", "person", metavar="WHO", help="E-mail address or username of the new assignee.")
@click.option("--policy", "policy_name", metavar="POLICY", help="Escalation policy that starts instead.")
@user_option
@account_option
@as_json_option
def reassign(
    number: str,
    person: str | None,
    policy_name: str | None,
    who: str | None,
    account_id: str | None,
    as_json: bool,
) -> None:
    """Assign an incident to a person, who is notified, or to another escalation policy, which starts."""
    if (person is None) == (policy_name is None):
        raise BadArguments("give either --to or --policy")
    with _opened(_Named(number, who, account_id, as_json)) as target:
        if person is not None:
            assignee = names.find_user(person, target.account_id)

            def assign(context: IncidentContext) -> tuple[Effect, ...]:
                # Loaded in the transaction: a user who is removed meanwhile gets nothing.
                found = load_people([assignee.username]).get(assignee.username)
                if found is None:
                    raise click.ClickException(to_printable(f"{person} was removed a moment ago"))
                return decisions.assign(context, found)

            target.change(assign)
            target.report("reassigned", f"is assigned to {get_display_name(assignee)}")
            return
        usable = names.POLICY.select(target.account_id)
        usable = usable.where((EscalationPolicy.team == target.incident.team_id) | EscalationPolicy.global_ep)
        policy = names.find(names.POLICY, str(policy_name), target.account_id, usable)

        def change_policy(context: IncidentContext) -> tuple[Effect, ...]:
            locked = replace(context, config=lock_next_target(context.config, policy.id))
            return decisions.change_policy(locked, policy.id)

        target.change(change_policy, [policy.id])
        target.report("reassigned", f"is handled by {policy.name}")


def _change_status(named: _Named, to: IncidentStatus) -> None:
    """Change the status of an incident. Raise if the incident cannot get it."""
    with _opened(named) as target:
        by = target.author.name
        if to is IncidentStatus.ACKNOWLEDGED:
            why = make_reason("acknowledged_by_command", by=by)
        else:
            why = make_reason("resolved_by_command", by=by)

        def decide(context: IncidentContext) -> tuple[Effect, ...]:
            if context.incident.status is IncidentStatus.RESOLVED and to is not IncidentStatus.RESOLVED:
                raise click.ClickException(f"incident #{context.incident.number} is resolved already")
            return decisions.change_status(context, to, why)

        before = target.change(decide)
        already = " already" if before.status is to else ""
        target.report(to.name.lower(), f"is {to.name.lower()}{already}", was_already=before.status is to)
