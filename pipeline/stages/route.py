"""Stage 2: a global router's rules send the alert to integrations. No routers exist yet."""

from datetime import datetime

from models.effects import Decision, go_on
from pipeline.alert import Alert
from pipeline.state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    return go_on("sent to an integration's own key: no router asked")
