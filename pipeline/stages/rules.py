"""Stage 3: the integration's alert rules change the alert. No alert rules exist yet."""

from datetime import datetime

from models.effects import Decision, go_on
from pipeline.alert import Alert
from pipeline.state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    return go_on("the integration has no alert rules")
