"""Build the notifications of an incident for a person: one for each of their notification rules.

Contract section 4.4, rows 6, 8, 9 and 11.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.effects import CreateNotification, IncidentState, NotificationState
from models.domain.enums import KINDS_WHILE_OPEN, OPEN_STATUSES, IncidentStatus, NotificationKind
from models.domain.facts import (
    IncidentContext,
    NotificationFacts,
    NotificationRuleFacts,
    OnCallConfig,
    PersonFacts,
)
from models.domain.reasons import Parameter, Reason, make_reason
from models.domain.values import replace

MINUTE = timedelta(minutes=1)
# If an alert is processed later than this, it notifies the people who are on call at that later time.
LATE_AFTER = MINUTE
# Kinds that are also sent for acknowledged incidents. Another person can then be assigned or asked to help.
# The resolve target of an SLA does not depend on an acknowledgement.


def build_key_prefix(incident: str, kind: NotificationKind, reason_key: str) -> str:
    """Return the common beginning of the keys of all notifications of an incident for one reason."""
    return f"{incident}:{kind}:{reason_key}:"


def get_cancel_reason(kind: NotificationKind, status: IncidentStatus) -> Reason | None:
    """Return why a notification of this kind is cancelled in this status; None if it is still sent."""
    if kind is NotificationKind.RECOVERY:
        return None if status is IncidentStatus.RESOLVED else get_status_reason(status)
    active = OPEN_STATUSES if kind in KINDS_WHILE_OPEN else {IncidentStatus.TRIGGERED}
    return None if status in active else get_status_reason(status)


def get_status_reason(status: IncidentStatus) -> Reason:
    """Return the reason "the incident is acknowledged", or another status."""
    return _STATUS_REASONS[status]


_STATUS_REASONS = {
    IncidentStatus.TRIGGERED: make_reason("is_triggered"),
    IncidentStatus.ACKNOWLEDGED: make_reason("is_acknowledged"),
    IncidentStatus.RESOLVED: make_reason("is_resolved"),
}


def get_routing_time(config: OnCallConfig, at: datetime) -> datetime:
    """Return the moment at which people must be on call to be notified by an alert of time `at`.

    This is `at`, or the processing time if the alert was processed more than `LATE_AFTER` later.
    """
    processed_at = config.processed_at
    return processed_at if processed_at is not None and processed_at - at > LATE_AFTER else at


def get_recipient(person: PersonFacts, at: datetime) -> PersonFacts:
    """Return the person to notify in place of this person, by the forwarding rule in force at a moment.

    Of several rules, the one that began last counts. Forwarding rules of the receiver are ignored.
    """
    holding = [each for each in person.forwarding if each.start <= at < each.end]
    return max(holding, key=lambda each: each.start).to if holding else person


def list_names(people: Iterable[PersonFacts], config: OnCallConfig, at: datetime) -> tuple[Parameter, ...]:
    """Return the names of people for a reason, each with the receiver if forwarding is in force."""
    return tuple(_describe_person(person, config, at) for person in people)


def _describe_person(person: PersonFacts, config: OnCallConfig, at: datetime) -> Parameter:
    receiver = get_recipient(person, get_routing_time(config, at))
    if receiver is person:
        return person.name
    return make_reason("forwarded_person", person=person.name, receiver=receiver.name)


def build_notifications(
    context: IncidentContext, person: PersonFacts, kind: NotificationKind, reason_key: str, why: Reason
) -> list[CreateNotification]:
    """Build one notification per notification rule of the person for the incident's urgency.

    A person without such a rule gets one immediately, at their own e-mail address. `reason_key` separates
    the reasons of one kind, for example by run and step.
    """
    receiver, why = _apply_forwarding(context, person, why)
    return _build_by_urgency(context, receiver, kind, reason_key, why)


def rebuild_notifications(
    context: IncidentContext, existing: Iterable[NotificationFacts], *, raised: bool, why: Reason
) -> Iterator[CreateNotification]:
    """Build notifications again after the urgency of an incident changed, by the rules of the new urgency.

    Each person with a pending notification gets new ones. If the urgency was `raised` and the incident is
    still triggered, the people of the last step and the assignee get new ones too. If the urgency was
    lowered, contacts that were notified before are not notified again.
    """
    incident = context.incident
    known: dict[tuple[NotificationKind, str, int], list[NotificationFacts]] = {}
    for one in existing:
        known.setdefault((one.kind, one.reason_key, one.person.row), []).append(one)
    last = _find_last_step(incident, known)
    for (kind, reason_key, _), group in known.items():
        is_pending = not all(one.is_sent for one in group)
        if is_pending or (raised and _is_awaited(incident, kind, reason_key, last)):
            person = group[0].person
            sent_contacts = set() if raised else {one.contact for one in group if one.is_sent}
            later = replace(context, now=_get_start(incident, group, context.now))
            rebuilt = _build_by_urgency(later, person, kind, reason_key, group[0].reason.add(why))
            # A person who was notified before needs no fallback to the user's own e-mail address.
            yield from (
                created
                for created in rebuilt
                if not sent_contacts or created.notification.contact not in {*sent_contacts, None}
            )


def _get_start(incident: IncidentState, existing: Iterable[NotificationFacts], now: datetime) -> datetime:
    """Return the start of rebuilt notifications: the start of the run if all existing ones waited for it."""
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
    context: IncidentContext,
    person: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    why: Reason,
    *,
    group_key: str,
) -> list[CreateNotification]:
    """Build notifications to send now, for any urgency (contract 4.4, row 9).

    The person gets one for each contact with a notification rule without delay. Notifications with the
    same `group_key` can share one message, also those of different incidents.
    """
    receiver, why = _apply_forwarding(context, person, why)
    rules = {rule.contact: rule for rule in reversed(receiver.rules) if rule.start_delay_minutes == 0}
    every = sorted(rules.values(), key=lambda rule: rule.row)
    fallback_reason = make_reason("no_rule_without_delay")
    return _build_by_rules(context, every, fallback_reason, receiver, kind, reason_key, group_key, why)


def _build_by_urgency(
    context: IncidentContext, receiver: PersonFacts, kind: NotificationKind, reason_key: str, why: Reason
) -> list[CreateNotification]:
    urgency = context.incident.urgency
    rules = [rule for rule in receiver.rules if rule.urgency is urgency]
    fallback_reason = make_reason("no_rule_for_urgency", urgency=urgency.name.lower())
    return _build_by_rules(context, rules, fallback_reason, receiver, kind, reason_key, reason_key, why)


def _apply_forwarding(
    context: IncidentContext, person: PersonFacts, why: Reason
) -> tuple[PersonFacts, Reason]:
    receiver = get_recipient(person, get_routing_time(context.config, context.now))
    return receiver, why if receiver is person else why.add(make_reason("forwarded_from", person=person.name))


def _build_by_rules(
    context: IncidentContext,
    rules: Sequence[NotificationRuleFacts],
    fallback_reason: Reason,
    receiver: PersonFacts,
    kind: NotificationKind,
    reason_key: str,
    group_key: str,
    why: Reason,
) -> list[CreateNotification]:
    """Build a notification for each rule, or one to the user's own e-mail address with `fallback_reason`."""
    incident = context.incident.unique_id
    prefix = f"{build_key_prefix(incident, kind, reason_key)}{receiver.username}"
    by_rules = [
        NotificationState(
            key=f"{prefix}:{rule.contact}:{rule.row}",
            incident=incident,
            user=receiver.row,
            contact=rule.contact,
            channel=rule.channel,
            rule=rule.row,
            kind=kind,
            reason=why,
            not_before=context.now + rule.start_delay_minutes * MINUTE,
            group_key=f"{kind}:{group_key}:{rule.start_delay_minutes}",
        )
        for rule in rules
    ]
    if not by_rules:
        by_rules.append(
            NotificationState(
                key=f"{prefix}:account:-",
                incident=incident,
                user=receiver.row,
                contact=None,
                channel=USER_EMAIL_CHANNEL,
                rule=None,
                kind=kind,
                reason=why.add(fallback_reason),
                not_before=context.now,
                group_key=f"{kind}:{group_key}:0",
            )
        )
    return [CreateNotification(notification) for notification in by_rules]
