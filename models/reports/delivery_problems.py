"""Find the channels that an account needs and whose settings are missing."""

from models.domain.channels import CHANNELS, USER_EMAIL_CHANNEL
from models.tables.accounts import Account, User
from models.tables.users import ContactMethod, NotificationRule
from runtime.settings import Settings, find_unset


def list_delivery_problems(settings: Settings, account: Account) -> list[str]:
    """Describe why people of an account cannot be notified by a channel that their rules use."""
    used = (
        ContactMethod.select(ContactMethod.contact_type)
        .join(User)
        .switch(ContactMethod)
        .join(NotificationRule)
        .where(User.account == account, User.removed_at.is_null())
    )
    contact_types = {USER_EMAIL_CHANNEL, *(contact_type for (contact_type,) in used.distinct().tuples())}
    problems = [describe_problem(settings, number) for number in CHANNELS if number in contact_types]
    return [problem for problem in problems if problem is not None]


def describe_problem(settings: Settings, contact_type: int) -> str | None:
    """Return why Tocsin cannot send by this channel with these settings; None if it can."""
    channel = CHANNELS[contact_type]
    variable = find_unset(settings, channel.name)
    return f"Tocsin cannot send {channel.title}: {variable} is not set" if variable else None
