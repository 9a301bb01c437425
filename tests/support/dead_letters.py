"""Write dead letters as the pipeline writes them."""

import json
from datetime import datetime
from typing import Any

from models.domain.enums import WorkState
from models.domain.identity import make_event_id
from models.domain.reasons import make_reason
from models.tables.events import Event, Receipt
from tests.support.alerts import accept
from tests.support.world import World

ERROR = make_reason("alert_failed", error="ZeroDivisionError", stage="normalize")


def add_dead_letter_body(world: World, now: datetime, *, message: str = "poison", **more: Any) -> Receipt:
    """Add a dead letter for a whole body."""
    receipt = accept(world, now, message=message, alert_type="critical", entity_id=message, **more)
    Receipt.update(state=WorkState.DEAD_LETTER, error=ERROR).where(Receipt.id == receipt.id).execute()
    return Receipt.get_by_id(receipt.id)


def add_dead_letter_alert(
    world: World, now: datetime, *, message: str = "poison", stage: str = "normalize"
) -> Event:
    """Add a dead letter for a single alert of a body."""
    receipt = accept(world, now, message=message, alert_type="critical", entity_id=message)
    Receipt.update(state=WorkState.DONE).where(Receipt.id == receipt.id).execute()
    return Event.create(
        unique_id=make_event_id(receipt.trace_id, 0, world.integration.id),
        receipt=receipt,
        position=0,
        integration=world.integration,
        service=world.service,
        message=message,
        alert_type=3,
        entity_id=message,
        alert={
            "payload": json.loads(receipt.body),
            "urls": [],
            "images": [],
            "notes": [],
            "requested_options": {},
            "entity_given": True,
        },
        creation_date=receipt.received_at,
        stage=stage,
        state=WorkState.DEAD_LETTER,
        reasons=[]
        if stage == "normalize"
        else [["normalize", make_reason("entity_given", level="critical")]],
        error=make_reason("alert_failed", error="ZeroDivisionError", stage=stage),
    )
