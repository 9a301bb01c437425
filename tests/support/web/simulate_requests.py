"""Requests of simulations."""

import pytest

SIMULATE = "/api/tocsin/simulate/"


NOON = "2026-03-04T12:00:00Z"


DISK = {"message": "Disk full", "alert_type": "critical", "entity_id": "db1"}


@pytest.fixture
def simulate(ask, world):
    """simulate(at=..., ...): the simulation of an alert of the team's integration."""

    def simulate_alert(*, who="alice", **more):
        body = {"integration": world.integration.unique_id, "at": NOON, "alert": DISK, **more}
        answer = ask("POST", SIMULATE, body, who=who)
        assert answer.status_code == 200, answer.json
        return answer.json

    return simulate_alert
