"""What an alert says about its stakeholders: contract section 4.11.

Stakeholders get a mail about the incident of the alert. They are not on call and cannot act.
"""

from collections.abc import Mapping
from datetime import datetime

from models.domain.effects import MailStakeholders
from models.domain.reasons import Reason, make_reason
from pipeline.alert import Alert, build_alert_author
from pipeline.sources.reading.cleaning import clean_line, clean_text

# The name under which the alert trace shows the reason, after the stages.
STAGE = "stakeholders"
# Users, teams and addresses that are read, of each kind.
MAX_NAMES = 50
MAX_SUBJECT = 200
MAX_BODY = 4_000
# Usernames and IDs are shorter, and so are addresses.
MAX_NAME = 254


def decide(
    alert: Alert, incident: str | None, now: datetime
) -> tuple[Reason, MailStakeholders | None] | None:
    """Decide at the end of the stages whether the stakeholders of an alert get a mail.

    None if the alert names no stakeholders. `incident`: the unique_id of the incident of the alert. Which of
    the stakeholders can be mailed is decided when the effect is written.
    """
    options = alert.parsed.requested_options
    named = options.get("stakeholders")
    if not named:
        return None
    users, teams, emails = (_list_names(named, field) for field in ("users", "teams", "emails"))
    if not (users or teams or emails):
        return make_reason("stakeholders_empty"), None
    if incident is None:
        return make_reason("stakeholders_without_incident"), None
    comms = options.get("stakeholder_comms")
    texts: Mapping[str, object] = comms if isinstance(comms, Mapping) else {}
    effect = MailStakeholders(
        incident,
        now,
        users=users,
        teams=teams,
        emails=tuple(dict.fromkeys(email.lower() for email in emails)),
        subject=clean_line(_get_text(texts, "subject"), MAX_SUBJECT),
        body=clean_text(_get_text(texts, "body"), MAX_BODY),
        time_zone=clean_line(_get_text(texts, "timezone"), 64),
        created_by=clean_line(_get_text(texts, "created_by"), MAX_NAME),
        author=build_alert_author(alert),
    )
    return make_reason("stakeholders_named", count=len(users) + len(teams) + len(effect.emails)), effect


def _list_names(named: object, field: str) -> tuple[str, ...]:
    """Return the distinct texts of a list in `stakeholders`; other values are ignored."""
    found = named.get(field) if isinstance(named, Mapping) else None
    texts = [clean_line(each, MAX_NAME) for each in _list(found)[:MAX_NAMES] if isinstance(each, str)]
    return tuple(dict.fromkeys(filter(None, texts)))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _get_text(texts: Mapping[str, object], name: str) -> str:
    text = texts.get(name)
    return text if isinstance(text, str) else ""
