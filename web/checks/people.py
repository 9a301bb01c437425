"""Find people whom messages do not reach as planned: who have not joined, and who forward twice."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from models.tables.accounts import Account, User, get_display_name
from models.tables.users import ForwardingRule
from schedules.oncall.checks import describe_times
from web.checks.finding import TRUNCATED, Finding

# Names that are listed of people who have not joined; the others are counted.
MAX_NAMES = 20
# Forwarding rules of an account that are compared.
MAX_RULES = 2_000


def build_unjoined(names: Sequence[str], *, minor: bool) -> Finding:
    """Return one finding about all people (at least one) who have not joined and cannot be notified well."""
    listed = ", ".join(names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    subject = "1 person has" if len(names) == 1 else f"{len(names):,} people have"
    what = f"{subject} not joined, so only addresses that are not verified get messages: {listed}{more}"
    return Finding("not_joined", "", "people", what, minor)


def find_forwarded_again(
    account: Account, start: datetime, end: datetime, go_on: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Find forwarding rules to somebody who forwards to another person at the same time.

    Only the first rule counts, so a person who is away is notified. `go_on` is called before each comparison,
    and may raise.
    """
    to = User.alias()
    query = (
        ForwardingRule.select(ForwardingRule, User, to)
        .join(User, on=ForwardingRule.user)
        .switch(ForwardingRule)
        .join(to, on=ForwardingRule.to_user)
        .where(
            User.account == account,
            User.removed_at.is_null(),
            ForwardingRule.to_date > start,
            ForwardingRule.from_date < end,
        )
        .order_by(ForwardingRule.from_date, ForwardingRule.id)
    )
    rules = list(query.limit(MAX_RULES + 1))
    if len(rules) > MAX_RULES:
        what = f"only the first {MAX_RULES:,} forwarding rules are checked"
        yield Finding(TRUNCATED, "", "forwarding", what, minor=True)
    by_person: dict[int, list[ForwardingRule]] = {}
    for rule in rules[:MAX_RULES]:
        by_person.setdefault(rule.user_id, []).append(rule)
    for rule in rules[:MAX_RULES]:
        go_on()
        for other in by_person.get(rule.to_user_id, ()):
            span = max(rule.from_date, other.from_date, start), min(rule.to_date, other.to_date, end)
            if span[0] < span[1]:
                yield _build_forwarded_again(rule, other, span, end)


def _build_forwarded_again(
    rule: ForwardingRule, other: ForwardingRule, span: tuple[datetime, datetime], end: datetime
) -> Finding:
    person, receiver, last = (get_display_name(each) for each in (rule.user, rule.to_user, other.to_user))
    when = describe_times(rule.time_zone, span, asked_until=end)
    what = (
        f"{person} forwards to {receiver}, who forwards to {last}, {when}: {receiver} is notified, since"
        " messages are forwarded once"
    )
    return Finding("forwarded_again", "", f"person {person}", what, start=span[0], end=span[1])
