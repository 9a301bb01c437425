"""Build the notifications of an incident for a person: one for each of their notification rules.

Contract section 4.4, rows 6, 8, 9 and 11.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.effects import IncidentState, NotificationState
from models.domain.enums import OPEN_STATUSES, IncidentStatus, NotificationKind
from models.domain.facts import NotificationFacts, NotificationRuleFacts, OnCallConfig, PersonFacts

MINUTE = timedelta(minutes=1)
# An alert that was processed later than this notifies the people of the processing time, not of its arrival.
LATE_AFTER = MINUTE
# A person can be assigned an incident that another person has acknowledged, or be asked to help with it.
# The resolve target of an SLA does not depend on an acknowledgement.
KINDS_WHILE_OPEN = {NotificationKind.ASSIGNMENT, NotificationKind.RESPONDER, NotificationKind.SLA_RESOLVE}


def build_key_prefix(incident: str, kind: NotificationKind, reason_key: str) -> str:
    """Return the common beginning of the keys of all notifications of an incident for one reason."""
    return f"{incident}:{kind}:{reason_key}:"


def get_cancel_reason(kind: NotificationKind, status: IncidentStatus) -> str | None:
    """Return why a notification of this kind is cancelled in this status; None if it is still sent."""
    active = OPEN_STATUSES if kind in KINDS_WHILE_OPEN else {IncidentStatus.TRIGGERED}
    return None if status in active else f"incident is {status.name.lower()}"


def get_routing_time(config: OnCallConfig, at: datetime) -> datetime:
    """Return the moment that decides whom an alert of time `at` notifies.

    This is `at`, or the processing time if the alert was processed more than `LATE_AFTER` later.
    """
    processed_at = config.processed_at
    return processed_at if processed_at is not None and processed_at - at > LATE_AFTER else at


def get_recipient(person: PersonFacts, at: datetime) -> PersonFacts:
    """Return who is notified in place of a person, by the forwarding in force at this moment.

    Of several forwardings, the one that began last counts. The forwarding of the receiver is not followed.
    """
    holding = [each for each in person.forwarding if each.start <= at < each.end]
    return max(holding, key=lambda each: each.start).to if holding else person


def describe_person(person: PersonFacts, config: OnCallConfig, at: datetime) -> str:
    """Return a person's display name, and the name of the receiver if forwarding is in force."""
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
    """Build one notification per notification rule of the person for the incident's urgency.

    A person without such a rule gets one at once, at their own e-mail address. `reason_key` separates
    the reasons of one kind, for example by run and step.
    """
    receiver, reason = _apply_forwarding(person, reason, config, now)
    return _build_by_urgency(incident, receiver, kind, reason_key, reason, now)


def rebuild_notifications(
    incident: IncidentState, existing: Iterable[NotificationFacts], *, raised: bool, why: str, now: datetime
) -> Iterator[NotificationState]:
    """Build notifications again after the urgency of an incident changed, by the rules of the new urgency.

    Each person with a pending notification gets new ones. If the urgency was `raised` and the incident is
    still triggered, the people of the last step and the assignee get new ones too. If it was lowered,
    contacts that were notified before are not notified again.
    """
    known: dict[tuple[NotificationKind, str, int], list[NotificationFacts]] = {}
    for one in existing:
        known.setdefault((one.kind, one.reason_key, one.person.row), []).append(one)
    last = _find_last_step(incident, known)
    for (kind, reason_key, _), group in known.items():
        is_pending = not all(one.is_sent for one in group)
        if is_pending or (raised and _is_awaited(incident, kind, reason_key, last)):
            person, reason = group[0].person, f"{group[0].reason}; {why}"
            sent_contacts = set() if raised else {one.contact for one in group if one.is_sent}
            begins = _get_start(incident, group, now)
            rebuilt = _build_by_urgency(incident, person, kind, reason_key, reason, begins)
            # A person who was notified before needs no fallback to the user's own e-mail address.
            yield from (
                notification
                for notification in rebuilt
                if not sent_contacts or notification.contact not in {*sent_contacts, None}
            )


def _get_start(incident: IncidentState, existing: Iterable[NotificationFacts], now: datetime) -> datetime:
    """Return the start of rebuilt notifications: if all were delayed until the run begins, they still are."""
    run_started_at = incident.run_started_at
    is_delayed = all(one.not_before >= run_started_at for one in existing)
    return max(now, run_started_at) if is_delayed else now


def _find_last_step(incident: IncidentState, reason_keys: Iterable[tuple[NotificationKind, str, int]]) -> int:
    """Return the last step of the present run that named anybody; -1 if none did."""
    taken = (
        reason_key.split(":") for kind, reason_key, _ in reason_keys if kind is NotificationKind.ESCALATION
    )
    return max(
        (int(step) for escalation_run, step in taken if int(escalation_run) == incident.escalation_run),
        default=-1,
    )


def _is_awaited(incident: IncidentState, kind: NotificationKind, reason_key: str, last_step: int) -> bool:
    """Return whether the incident still waits for an answer of the people notified for this reason."""
    if incident.status is not IncidentStatus.TRIGGERED:
        return False
    escalation_run = str(incident.escalation_run)
    return reason_key in {
        NotificationKind.ESCALATION: {f"{escalation_run}:{last_step}"},
        # Reason key "0" is the assignment at the opening of the incident, which belongs to the first run.
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
    """Build notifications to send now, for any urgency (contract 4.4, row 9).

    The person gets one for each contact with a notification rule without delay. Notifications with the
    same `group_key` can share one message, also those of different incidents.
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
    """Build a notification for each rule, or one to the user's own e-mail address with `fallback_reason`."""
    prefix = f"{build_key_prefix(incident.unique_id, kind, reason_key)}{receiver.username}"
    if not rules:
        return [
            NotificationState(
                key=f"{prefix}:account:-",
                incident=incident.unique_id,
                user=receiver.row,
                contact=None,
                channel=USER_EMAIL_CHANNEL,
                rule=None,
                kind=kind,
                reason=f"{reason}; {fallback_reason}, so the user's own e-mail address",
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
