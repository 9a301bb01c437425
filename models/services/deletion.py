"""Keep what alerts show of integrations that are about to be deleted.

The published clients cannot read an alert without its integration. A copy is one row for each integration,
and nothing is written for an alert before the deletion.
"""

from models.store.store import store
from models.tables.events import Event
from models.tables.services import DeletedIntegration, Integration, Service

_COPIED = (
    Integration.unique_id,
    Integration.name,
    Integration.summary,
    Integration.creation_date,
    Integration.integration_key,
    Integration.is_enabled,
    Integration.integration_type,
)


def keep_for_alerts(service: Service, integration: Integration | None = None) -> None:
    """Copy an integration of a service (None: all of them), and let its alerts refer to the copy.

    Call it under the lock of the service, in the transaction of the deletion.
    """
    found = Integration.select().where(Integration.service == service)
    # A router may be writing an alert of the integration, without the lock of the service.
    list(store().for_deletion(found.order_by(Integration.id)))
    for row in found if integration is None else [integration]:
        if Event.select(Event.id).where(Event.integration == row).exists():
            copy = DeletedIntegration.create(
                team=service.team_id,
                service=service.unique_id,
                **{column.name: getattr(row, column.name) for column in _COPIED},
            )
            Event.update(integration=None, deleted_integration=copy).where(Event.integration == row).execute()
