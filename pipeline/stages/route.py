"""Stage 2: whom a global router sends an alert to. Contract section 4.7.

Alerts that came by an integration's own key pass. Those of a router's key were routed before any service
was looked at, in a transaction of their own (pipeline/router.py), and go on behind this stage.
"""

from datetime import datetime

from models.domain.effects import Decision, proceed
from pipeline.alert import Alert
from pipeline.lane_state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    return proceed("sent to an integration's own key: no router asked")
