"""Rows that are created together with a user or a team."""

from models.tables.teams import IncidentRole
from models.tables.users import NotificationRule


def test_a_new_user_has_an_immediate_notification_rule_for_each_urgency(world):
    rules = NotificationRule.select().where(NotificationRule.user == world.bob)

    assert {(rule.urgency, rule.start_delay) for rule in rules} == {(1, 0), (0, 0)}


def test_a_new_team_has_a_policy_with_its_owner_and_the_role_incident_commander(world):
    assert world.policy.rules[0]["targets"][0]["target_id"] == world.alice.username
    assert IncidentRole.get(IncidentRole.team == world.team).title == "Incident Commander"
