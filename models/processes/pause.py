"""A restored copy is paused: it accepts alerts, but processes and sends nothing until it is resumed.

Its rows are of the time of the backup. Without the pause, it would notify people again of incidents that were
resolved after the backup. The state is a liveness row, which the schema has had since its first version.
"""

from datetime import datetime

from models.store import bulk
from models.tables.accounts import Liveness

# The name of the row; `at` is the time of the restore.
PROCESS = "paused"


def pause(now: datetime, backup_at: str) -> None:
    """Pause this installation. Needs a write transaction."""
    row = {"process": PROCESS, "at": now, "detail": {"backup_at": backup_at}}
    bulk.insert(Liveness, [row], conflict=["process"], replacing=["at", "detail"])


def is_paused() -> bool:
    """Return whether this installation is paused. Needs a connection."""
    return Liveness.select().where(Liveness.process == PROCESS).exists()


def resume() -> bool:
    """End the pause and return whether there was one. Needs a write transaction."""
    return bool(Liveness.delete().where(Liveness.process == PROCESS).execute())
