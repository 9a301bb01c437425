"""Stage 2: the routing of a global router. Contract section 4.7.

Alerts that were sent with an integration's own key pass unchanged. Alerts of a router's key were routed
earlier, in a separate transaction (pipeline/router.py), and continue after this stage.
"""

from datetime import datetime

from models.domain.effects import Decision, proceed
from pipeline.alert import Alert
from pipeline.lane_state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    return proceed("sent with the key of an integration: no router applies")
