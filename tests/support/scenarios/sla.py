"""SLAs of the team."""

from models.store.ids import make_uuid
from models.tables.accounts import bump_version
from models.tables.teams import Sla


def sla(world, *escalations, name="Gold", acknowledge=None, resolve=None):
    """Create an SLA with times in minutes; escalations are (type, minutes after the breach, person, ...)."""
    steps_stored = [
        {
            "unique_id": make_uuid(),
            "type": kind,
            "time": int(minutes * 60),
            "responders": [{"user": user.username, "unique_id": make_uuid()} for user in people],
        }
        for kind, minutes, *people in escalations
    ]
    made = Sla.create(
        unique_id=make_uuid(),
        team=world.team,
        name=name,
        acknowledge_time=acknowledge and acknowledge * 60,
        resolve_time=resolve and resolve * 60,
        escalations=steps_stored,
        creation_date=world.team.creation_date,
    )
    bump_version(world.account.id)
    return made
