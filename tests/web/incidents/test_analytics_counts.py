"""Analytics agree with a slow count in Python, at month ends and when clocks change."""

import pytest

from models.tables.teams import Team
from tests.support.scenarios.combinations import combine
from tests.support.web.analytics import CLOCK_CHANGES, METRICS, PATH, RandomIncidents, count_slowly

KINDS = ("incident_stats", "team_analytics", "service_analytics", "user_analytics")
QUESTIONS = 12


def round_means(answer):
    """Return an answer with its means as approximate values: they have three digits."""
    if isinstance(answer, list):
        return [round_means(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        key: pytest.approx(value, abs=0.001) if key in METRICS[3:] else round_means(value)
        for key, value in answer.items()
    }


@pytest.mark.parametrize(("zone", "seed"), combine(tuple(CLOCK_CHANGES), (1, 2)))
def test_analytics_agree_with_a_slow_count(ask, world, zone, seed):
    created = RandomIncidents(world, zone, seed)
    counted = 0

    for _ in range(QUESTIONS):
        body = created.choose_question()
        teams = Team.select().where(Team.account == world.account)
        expected = count_slowly(created.zone, world.alice, teams, body)
        counted += expected["incident_stats"]["total_incidents"]
        for kind in KINDS:
            answer = ask("POST", PATH.format(kind), body)
            assert answer.status_code == 200, answer.json
            assert (body, round_means(expected[kind])) == (body, answer.json)

    assert counted > 100


def test_a_member_sees_the_incidents_of_own_teams(ask, world):
    created = RandomIncidents(world, "Europe/Berlin", seed=3)
    body = {"from_date": "2025-12-31", "to_date": "2026-12-31"}

    for who, teams in (("bob", [world.team]), ("charlie", [world.charlies_team])):
        expected = count_slowly(created.zone, getattr(world, who), teams, body)
        assert expected["incident_stats"]["total_incidents"] > 20
        for kind in KINDS:
            assert round_means(expected[kind]) == ask("POST", PATH.format(kind), body, who=who).json
