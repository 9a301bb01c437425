"""Report that the budget of an alert did not suffice for its rules: one incident per integration."""

from models.domain import identity
from models.domain.effects import ChangeSet
from models.domain.reasons import make_reason
from pipeline.alert import Alert, build_alert_author
from pipeline.incidents.dead_letter_incident import open_incident
from pipeline.lane_state import LaneState

ENTITY_ID = "tocsin:skipped_rules"
ROUTER_ENTITY_ID = "tocsin:skipped_router_rules"
MESSAGE = "Tocsin skipped alert rules"
SUMMARY = (
    "The rules of an alert would have taken too much work, so some of them were skipped. The alert itself was"
    " processed; its alert trace names the skipped rules. Rules cost much if patterns or paths with [*] read"
    " large payloads."
)


def get_entity_id(router: str | None) -> str:
    return ENTITY_ID if router is None else ROUTER_ENTITY_ID


def open_for_skipped_rules(alert: Alert, state: LaneState, router: str | None) -> ChangeSet:
    """Open one incident for all skipped rules of an integration or a router.

    While it is open, return no effects.
    """
    entity_id = get_entity_id(router)
    entity = state.get_entity(alert.integration, entity_id)
    if state.get_open_incident(entity) is not None:
        return ChangeSet()
    integrations = state.facts.integrations
    name = integrations[alert.integration].name if alert.integration in integrations else "?"
    return open_incident(
        # Another name than that of the incident that the alert itself opens.
        identity.make_event_id(f"{alert.trace_id} {entity_id}", alert.position, alert.integration),
        f"{MESSAGE} of {name if router is None else router}",
        f"{SUMMARY} Its trace_id is {alert.trace_id}.",
        state,
        build_alert_author(alert),
        alert.effective_at,
        make_reason("opened_by_skipped_rules"),
        entity,
    )
