"""What people are told of an incident by their rules, and were, as decisions are given to know it."""

from models.accounts import User
from models.directories import people
from models.enums import BY_RULES, NoticeKind, NoticeState
from models.facts import TellingFacts
from models.notices import Notice, occasion_of


def tellings_of(incident_row: int) -> list[TellingFacts]:
    """All that was sent of an incident, or waits, in order; without people who have left."""
    living = (NoticeState.PENDING, NoticeState.SENT)
    query = (
        Notice.select(Notice, User)
        .join(User)
        .where(Notice.incident == incident_row, Notice.kind.in_(BY_RULES), Notice.state.in_(living))
        .order_by(Notice.id)
    )
    rows = list(query)
    persons = people({row.user.username for row in rows})
    return [
        TellingFacts(
            NoticeKind(row.kind),
            occasion_of(row.key),
            persons[row.user.username],
            row.contact_id,
            row.reason,
            row.not_before,
            row.state == NoticeState.SENT,
        )
        for row in rows
        if row.user.username in persons
    ]
