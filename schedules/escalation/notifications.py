"""What a person is owed of an incident: a notice for each way in which they want to be told.

Contract section 4.4, rows 6, 8, 9 and 11.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from models.domain.effects import IncidentState, NotificationState
from models.domain.enums import OPEN_STATUSES, ContactType, IncidentStatus, NotificationKind
from models.domain.facts import NotificationFacts, NotificationRuleFacts, OnCallConfig, PersonFacts

MINUTE = timedelta(minutes=1)
# What has waited for longer than this is not told to those who were to be told when it came.
LATE_AFTER = MINUTE
# Somebody may be given an incident that another has acknowledged, or be asked to help with it.
# What an SLA promises about its end has nothing to do with an acknowledgement.
KINDS_WHILE_OPEN = {NotificationKind.ASSIGNMENT, NotificationKind.RESPONDER, NotificationKind.SLA_RESOLVE}


def build_key_prefix(incident: str, kind: NotificationKind, reason_key: str) -> str:
    """What the keys of all notices begin with that an incident owes for one reason."""
    return f"{incident}:{kind}:{reason_key}:"


def get_cancel_reason(kind: NotificationKind, status: IncidentStatus) -> str | None:
    """Why a notice of this kind is told no more of an incident that has this status by now; None if it is."""
    active = OPEN_STATUSES if kind in KINDS_WHILE_OPEN else {IncidentStatus.TRIGGERED}
    return None if status in active else f"incident is {status.name.lower()}"


def get_routing_time(config: OnCallConfig, at: datetime) -> datetime:
    """The moment that counts for who is told of what happened at a moment: its own or, where that has waited,
    the one at which it is worked on."""
    processed_at = config.processed_at
    return processed_at if processed_at is not None and processed_at - at > LATE_AFTER else at


def get_recipient(person: PersonFacts, at: datetime) -> PersonFacts:
    """Who is told in the place of a person, by the forwarding that is in force when the person is named; of
    several, by the one that began last. Forwarding is not followed any further."""
    holding = [each for each in person.forwarding if each.start <= at < each.end]
    return max(holding, key=lambda each: each.start).to if holding else person


def describe_person(person: PersonFacts, config: OnCallConfig, at: datetime) -> str:
    """A person's name for people, and who is told instead."""
    receiver = get_recipient(person, get_routing_time(config, at))
    return person.name if receiver is person else f"{person.name} (forwarded to {receiver.name})"


def build_notifications(
    incident: IncidentState,
    person: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    reason: str,
    config: OnCallConfig,
    now: datetime,
) -> list[NotificationState]:
    """What is owed where a person is named: a notice per notification rule of the incident's urgency.

    Somebody without such a rule is told at the address of the account, at once. `occasion` tells one reason
    of this kind from the next (the chain and step).
    """
    receiver, reason = _apply_forwarding(person, reason, config, now)
    return _build_by_urgency(incident, receiver, kind, reason_key, reason, now)


def rebuild_notifications(
    incident: IncidentState, history: Iterable[NotificationFacts], *, raised: bool, why: str, now: datetime
) -> Iterator[NotificationState]:
    """What is owed of an incident that has another urgency from now on: whoever was still to be told is told
    by the rules of this one; if it was `raised` and nobody has answered, so is whoever was told last that it
    is theirs.

    Where it was lowered, no contact is told again.
    """
    known: dict[tuple[NotificationKind, str, int], list[NotificationFacts]] = {}
    for one in history:
        known.setdefault((one.kind, one.reason_key, one.person.row), []).append(one)
    last = _find_last_step(incident, known)
    for (kind, reason_key, _), group in known.items():
        is_pending = not all(one.is_sent for one in group)
        if is_pending or (raised and _is_awaited(incident, kind, reason_key, last)):
            person, reason = group[0].person, f"{group[0].reason}; {why}"
            sent_contacts = set() if raised else {one.contact for one in group if one.is_sent}
            begins = _get_start(incident, group, now)
            rebuilt = _build_by_urgency(incident, person, kind, reason_key, reason, begins)
            # Who was told already needs no last resort.
            yield from (
                notification
                for notification in rebuilt
                if not sent_contacts or notification.contact not in {*sent_contacts, None}
            )


def _get_start(incident: IncidentState, history: Iterable[NotificationFacts], now: datetime) -> datetime:
    """From when on somebody is told anew: what was put off until the chain begins still is."""
    run_started_at = incident.run_started_at
    is_delayed = all(one.not_before >= run_started_at for one in history)
    return max(now, run_started_at) if is_delayed else now


def _find_last_step(incident: IncidentState, reason_keys: Iterable[tuple[NotificationKind, str, int]]) -> int:
    """The last step of the chain by which anybody was named."""
    taken = (
        reason_key.split(":") for kind, reason_key, _ in reason_keys if kind is NotificationKind.ESCALATION
    )
    return max(
        (int(step) for escalation_run, step in taken if int(escalation_run) == incident.escalation_run),
        default=-1,
    )


def _is_awaited(incident: IncidentState, kind: NotificationKind, reason_key: str, last_step: int) -> bool:
    """Whether who was told on this occasion is still waited for."""
    if incident.status is not IncidentStatus.TRIGGERED:
        return False
    escalation_run = str(incident.escalation_run)
    return reason_key in {
        NotificationKind.ESCALATION: {f"{escalation_run}:{last_step}"},
        # By the chain's first number, who was chosen as it was opened.
        NotificationKind.ASSIGNMENT: {escalation_run, "0"}
        if incident.escalation_run == 1
        else {escalation_run},
        NotificationKind.NOBODY_PAGED: {escalation_run},
    }.get(kind, ())


def build_immediate(
    incident: IncidentState,
    person: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    reason: str,
    config: OnCallConfig,
    now: datetime,
    *,
    group_key: str,
) -> list[NotificationState]:
    """What is owed where a person is to be told now, whatever the urgency: a notice for each contact that a
    notification rule without delay leads to (contract 4.4, row 9).

    What is owed `together` may travel in one message, of however many incidents.
    """
    receiver, reason = _apply_forwarding(person, reason, config, now)
    rules = {rule.contact: rule for rule in reversed(receiver.rules) if rule.start_delay_minutes == 0}
    fallback_reason = "no usable rule without delay"
    every = sorted(rules.values(), key=lambda rule: rule.row)
    return _build_by_rules(
        every, fallback_reason, incident, receiver, kind, reason_key, group_key, reason, now
    )


def _build_by_urgency(
    incident: IncidentState,
    receiver: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    reason: str,
    now: datetime,
) -> list[NotificationState]:
    rules = [rule for rule in receiver.rules if rule.urgency is incident.urgency]
    fallback_reason = f"no usable rule for {incident.urgency.name.lower()} urgency"
    return _build_by_rules(
        rules, fallback_reason, incident, receiver, kind, reason_key, reason_key, reason, now
    )


def _apply_forwarding(
    person: PersonFacts, reason: str, config: OnCallConfig, now: datetime
) -> tuple[PersonFacts, str]:
    receiver = get_recipient(person, get_routing_time(config, now))
    return receiver, reason if receiver is person else f"{reason}; forwarded from {person.name}"


def _build_by_rules(
    rules: Sequence[NotificationRuleFacts],
    fallback_reason: str,
    incident: IncidentState,
    receiver: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    group_key: str,
    reason: str,
    now: datetime,
) -> list[NotificationState]:
    """A notice for each of these rules; `without` any, one to the account's address, which says so."""
    prefix = f"{build_key_prefix(incident.unique_id, kind, reason_key)}{receiver.username}"
    if not rules:
        return [
            NotificationState(
                key=f"{prefix}:account:-",
                incident=incident.unique_id,
                user=receiver.row,
                contact=None,
                channel=ContactType.EMAIL,
                rule=None,
                kind=kind,
                reason=f"{reason}; {fallback_reason}, so the account's address",
                not_before=now,
                group_key=f"{kind}:{group_key}:0",
            )
        ]
    return [
        NotificationState(
            key=f"{prefix}:{rule.contact}:{rule.row}",
            incident=incident.unique_id,
            user=receiver.row,
            contact=rule.contact,
            channel=rule.channel,
            rule=rule.row,
            kind=kind,
            reason=reason,
            not_before=now + rule.start_delay_minutes * MINUTE,
            group_key=f"{kind}:{group_key}:{rule.start_delay_minutes}",
        )
        for rule in rules
    ]
