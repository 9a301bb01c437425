"""Write the deliveries of outbound integrations, in the transaction that changes their incidents."""

from collections.abc import Collection, Mapping

from models.domain.effects import SendOutbound
from models.domain.enums import IntegrationType
from models.store import bulk
from models.store.ids import make_uuid
from models.store.prepared import Prepared, in_bound
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.services import Integration

_TARGETS = Prepared(
    lambda: (
        OutboundTarget.select(Integration.service, OutboundTarget.id)
        .join(Integration)
        .where(
            in_bound(Integration.service, "services"),
            Integration.is_enabled,
            Integration.integration_type == IntegrationType.OUTBOUND,
        )
        .order_by(OutboundTarget.id)
    )
)


def write_outbound(effects: Collection[SendOutbound], incident_rows: Mapping[str, int]) -> None:
    """Insert a delivery for each change and each target of its service, in the order of the changes."""
    targets: dict[int, list[int]] = {}
    for service, target in _TARGETS.rows(services=list({effect.service for effect in effects})):
        targets.setdefault(service, []).append(target)
    records = [
        {
            "unique_id": make_uuid(),
            "target": target,
            "incident": incident_rows[effect.incident],
            "event": effect.event.value,
            "created_at": effect.at,
            "next_attempt_at": effect.at,
        }
        for effect in effects
        for target in targets.get(effect.service, ())
    ]
    bulk.insert(OutboundDelivery, records)
