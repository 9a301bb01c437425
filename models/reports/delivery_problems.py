"""Find the channels that an account needs and whose settings are missing.

The settings of the running workers count, because they send. A command in another shell may have others.
"""

from collections.abc import Mapping
from datetime import datetime

from models.domain.channels import CHANNELS, USER_EMAIL_CHANNEL
from models.reports import backlog
from models.tables.accounts import Account, User
from models.tables.users import ContactMethod, NotificationRule
from runtime.settings import Settings, find_unset_in, list_values

Values = Mapping[str, object]


def list_delivery_problems(settings: Settings, account: Account, now: datetime) -> list[str]:
    """Describe why people of an account cannot be notified by a channel that their rules use."""
    used = (
        ContactMethod.select(ContactMethod.contact_type)
        .join(User)
        .switch(ContactMethod)
        .join(NotificationRule)
        .where(User.account == account, User.removed_at.is_null())
    )
    contact_types = {USER_EMAIL_CHANNEL, *(contact_type for (contact_type,) in used.distinct().tuples())}
    own = list_values(settings)
    workers = list_worker_values(now)
    problems = []
    for number in (number for number in CHANNELS if number in contact_types):
        found = [describe_problem(values, number) for values in workers or [own]]
        problem = next((problem for problem in found if problem is not None), None)
        if problem is not None and workers and describe_problem(own, number) is None:
            problem = (
                f"{problem} for a running worker, but is set here: restart Tocsin with the same settings"
            )
        if problem is not None:
            problems.append(problem)
    return problems


def list_worker_values(now: datetime) -> list[Values]:
    """Return the settings of each running worker."""
    return [process.settings for process in backlog.list_live(now) if process.kind == "worker"]


def describe_problem(values: Values, contact_type: int) -> str | None:
    """Return why Tocsin cannot send by this channel with these settings; None if it can."""
    channel = CHANNELS[contact_type]
    variable = find_unset_in(values, channel.name)
    return f"Tocsin cannot send {channel.title}: {variable} is not set" if variable else None
