"""What comes into being together."""

from models.tables.teams import IncidentRole
from models.tables.users import NotificationRule


def test_a_new_user_is_told_at_once_for_both_urgencies(world):
    rules = NotificationRule.select().where(NotificationRule.user == world.bob)

    assert {(rule.urgency, rule.start_delay) for rule in rules} == {(1, 0), (0, 0)}


def test_a_new_team_has_its_owner_in_its_policy_and_an_incident_commander(world):
    assert world.policy.rules[0]["targets"][0]["target_id"] == world.alice.username
    assert IncidentRole.get(IncidentRole.team == world.team).title == "Incident Commander"
