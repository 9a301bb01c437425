"""Alerts that their source sends again and again while they fire: which of them are new, and when they end.

A repeated alert only moves the time at which its entity expires; it is not stored. Some hours later it counts
as an alert again, as with the default `repeat_interval` of Alertmanager (decision 0075).
"""

from datetime import datetime, timedelta

from models.domain.effects import Decision, EntityState, SaveEntity
from models.domain.enums import AlertType
from models.domain.values import replace
from pipeline.alert import Alert, ParsedAlert

# For an alert without `endsAt`: the default `resolve_timeout` of Alertmanager.
EXPIRES_AFTER = timedelta(minutes=5)
# The default `repeat_interval` of Alertmanager.
REPEATS_AFTER = timedelta(hours=4)
# For this time after a resolve, triggers with an older source time are ignored: invariant 4 (design,
# section 2).
RESOLVE_MEMORY = timedelta(hours=1)
# Two senders of the same alert see its end at different times: each evaluates about once per minute.
AGREE_WITHIN = timedelta(minutes=2)


def set_end(parsed: ParsedAlert, received_at: datetime) -> ParsedAlert:
    """Return a resent alert with its end. It is resolved if it ended before its body was received."""
    if not parsed.is_resent:
        return parsed
    if parsed.ends_at is None:
        return replace(parsed, ends_at=received_at + EXPIRES_AFTER)
    if parsed.ends_at > received_at:
        return parsed
    return replace(parsed, alert_type=AlertType.RESOLVED, source_at=parsed.ends_at)


def is_repeated(alert: Alert, entity: EntityState, now: datetime) -> bool:
    """Return whether a resent alert says what its entity says already."""
    if alert.alert_type is AlertType.RESOLVED:
        return not entity.firing and entity.expires_at is None and entity.resolved_at is not None
    if alert.released_at is not None:
        # Maintenance deferred it, so that nothing was decided about it.
        return False
    return entity.repeats_at is not None and now < entity.repeats_at


def is_known_end(alert: Alert, entity: EntityState, now: datetime) -> bool:
    """Return whether a resent alert reports an end that its entity knows already.

    The entity may fire again since then: one of several senders of the same alert reported its end, and
    another one still sends the alert. The first one repeats its report for some time.
    """
    if alert.alert_type is not AlertType.RESOLVED or not remembers_resolve(entity, now):
        return False
    ended_at, known = alert.parsed.ends_at, entity.resolved_source_at
    return ended_at is not None and known is not None and ended_at <= known


def remembers_resolve(entity: EntityState, now: datetime) -> bool:
    """Return whether the last resolve of an entity was less than RESOLVE_MEMORY ago."""
    return entity.resolved_at is not None and now - entity.resolved_at <= RESOLVE_MEMORY


def outlives_resolve(alert: Alert, entity: EntityState, now: datetime) -> bool:
    """Return whether a resent alert still fires some minutes after the last resolve of its entity.

    Then another sender of the same alert does not agree with the one that reported the end.
    """
    ends_at, resolved_at = alert.parsed.ends_at, entity.resolved_at
    if ends_at is None or resolved_at is None:
        return False
    return ends_at > now and now - resolved_at > AGREE_WITHIN


def extend_suppressed(alert: Alert, entity: EntityState, now: datetime) -> EntityState:
    """Return the entity after a suppressed alert: it still fires, but nothing is decided about the alert.

    An entity without an end keeps none. If its expiry was reported, but is not processed yet, only
    `repeats_at` is left, and the alert ends later than the report says.
    """
    has_end = entity.expires_at is not None or entity.repeats_at is not None
    if alert.alert_type is AlertType.RESOLVED or not has_end:
        return entity
    return replace(entity, expires_at=extend(alert, entity, now).expires_at)


def extend(alert: Alert, entity: EntityState, now: datetime) -> EntityState:
    """Return the entity with the time at which it expires after this alert."""
    if alert.alert_type is AlertType.RESOLVED:
        return replace(entity, expires_at=None, repeats_at=None)
    ends_at = alert.parsed.ends_at
    # A released or replayed alert may have ended since it was sent. Its source has time to send it again.
    expires_at = ends_at if ends_at is not None and ends_at > now else now + EXPIRES_AFTER
    if entity.expires_at is not None:
        # Such an alert is older than those that were sent after it.
        expires_at = max(expires_at, entity.expires_at)
    known = entity.repeats_at
    repeats_at = known if known is not None and now < known else now + REPEATS_AFTER
    return replace(entity, expires_at=expires_at, repeats_at=repeats_at)


def has_expired(entity: EntityState, now: datetime) -> bool:
    """Return whether the source has not sent the alert again since its expiry was reported."""
    return entity.expires_at is None or entity.expires_at <= now


def save_expiry(decision: Decision, extended: EntityState) -> Decision:
    """Add the times of the entity to a decision, also to the entity that the decision saves."""
    saved = [effect for effect in decision.effects if isinstance(effect, SaveEntity)]
    entity = saved[-1].entity if saved else extended
    others = tuple(effect for effect in decision.effects if not isinstance(effect, SaveEntity))
    entity = replace(entity, expires_at=extended.expires_at, repeats_at=extended.repeats_at)
    return replace(decision, effects=(SaveEntity(entity), *others))
