"""End drills: when somebody acknowledged, when nobody is left to notify, or after an hour."""

from datetime import datetime, timedelta

import structlog

from models.domain.effects import Author, Effect
from models.domain.enums import AuthorKind, IncidentStatus, NotificationStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason, make_reason
from models.store.store import STORE_ERRORS, connection, store
from models.tables.incidents import Drill, Incident
from models.tables.notifications import Notification
from models.write.change_incident import change_incident
from pipeline import incidents
from workers.delivery import deliver

log = structlog.get_logger()

# How long a drill goes on after its last notification.
ANSWER_TIME = timedelta(minutes=15)


def end_drills(now: datetime | None = None) -> int:
    """Resolve the incidents of drills that are over. Return how many drills ended."""
    ended = 0
    with connection():
        for drill in list(Drill.select().where(Drill.done_at.is_null())):
            at = now or store().now()
            try:
                is_over = _end(drill, at)
            except STORE_ERRORS as error:
                # Its service may be locked. The drills of others still end.
                log.warning("a drill could not be ended yet", error=type(error).__name__)
                continue
            ended += is_over
    return ended


def _end(drill: Drill, at: datetime) -> bool:
    """End a drill and resolve its incident. Return whether the drill is over."""

    def decide(context: IncidentContext) -> tuple[Effect, ...] | None:
        why = _find_end(drill, Incident.get_by_id(drill.incident_id), at)
        if why is None:
            return None
        query = Drill.update(done_at=at, outcome=why)
        if not query.where(Drill.id == drill.id, Drill.done_at.is_null()).execute():
            return None
        return incidents.change_status(context, IncidentStatus.RESOLVED, make_reason("drill_over").add(why))

    author = Author(AuthorKind.TIMER, "drill")
    return change_incident(drill.incident_id, author, decide, at, deliver.enqueue) is not None


def _find_end(drill: Drill, incident: Incident, at: datetime) -> Reason | None:
    if incident.status == IncidentStatus.ACKNOWLEDGED:
        return make_reason("drill_acknowledged")
    if incident.status == IncidentStatus.RESOLVED:
        return make_reason("drill_resolved")
    if at >= drill.ends_at:
        return make_reason("drill_too_long", within=round((at - drill.creation_date).total_seconds()))
    if incident.exhausted and at >= _find_last(incident) + ANSWER_TIME:
        return make_reason("drill_unanswered", within=round(ANSWER_TIME.total_seconds()))
    return None


def _find_last(incident: Incident) -> datetime:
    """Return when the last notification was done; the end of time if one is pending."""
    of_incident = Notification.select(Notification.done_at).where(Notification.incident == incident)
    if of_incident.where(Notification.state == NotificationStatus.PENDING).exists():
        return datetime.max.replace(tzinfo=incident.creation_date.tzinfo) - ANSWER_TIME
    last: datetime | None = of_incident.order_by(Notification.done_at.desc()).limit(1).scalar()
    return last or incident.creation_date
