"""A refused request names the wrong place and says what would be right, in both profiles (contract 1.3)."""

import pytest

from tests.support.web.unknown_ids import NO_SUCH_ID
from web.http.errors import MAX_PLACES

NOBODY = "39569d4b-6540-4b64-a086-6"


@pytest.fixture(params=["Bearer", "Token"])
def refuse(ask, request):
    """Send a request that must be refused, and return its errors."""

    def refuse(method, path, body):
        refused = ask(method, path, body, scheme=request.param)
        assert (refused.status_code, refused.json["detail"]) == (400, "This request can not be processed.")
        return refused.json["errors"]

    return refuse


@pytest.fixture
def team(world) -> str:
    return f"/api/account/teams/{world.team.unique_id}"


def test_a_number_that_means_something_is_explained(refuse, world):
    body = {"title": "x", "service": world.service.unique_id, "status": 7}

    why = ["Must be 1 (triggered), 2 (acknowledged) or 3 (resolved)."]
    assert refuse("POST", "/api/incidents/", body) == {"status": why}
    assert refuse("POST", "/api/incidents/", body | {"status": "done"}) == {"status": why}


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        (
            "status",
            9,
            "Must be 0 (disabled), 1 (active), 2 (warning), 3 (critical) or 4 (under maintenance).",
        ),
        ("auto_resolve_timeout", -1, "Must be from 0 to 315360000."),
        ("auto_resolve_timeout", "soon", "Must be a whole number."),
        ("under_maintenance", "maybe", "Must be true or false."),
        ("name", 7, "Must be text."),
        ("sla", 7, "Must be an id as text."),
        ("sla", NO_SUCH_ID, f"{NO_SUCH_ID} is not the id of an SLA of this team."),
        ("escalation_policy", "", "Must not be blank."),
        ("escalation_policy", "x", "x is not an escalation policy that this team may use."),
    ],
)
def test_a_field_says_what_would_be_right(refuse, team, world, field, value, why):
    path = f"{team}/services/{world.service.unique_id}/"

    assert refuse("PATCH", path, {field: value}) == {field: [why]}


def test_a_layer_names_each_person_who_is_no_member(refuse, team, world):
    users = [{"user": name} for name in (NOBODY, world.alice.username, world.mallory.username)]
    layer = {"shift_length": 86400, "rotation_start_time": "2026-03-02T17:00:00Z", "users": users}

    errors = refuse(
        "POST", f"{team}/schedules/", {"name": "Nights", "layers": [layer | {"users": []}, layer]}
    )

    assert errors == {
        "layers.1.users.0": [f"{NOBODY} is not a member of this account."],
        "layers.1.users.2": [f"{world.mallory.username} is not a member of this account."],
    }


def test_an_override_names_its_place(refuse, team):
    span = {"start_time": "2026-03-02T17:00:00Z", "end_time": "2026-03-03T17:00:00Z"}

    errors = refuse("POST", f"{team}/schedules/", {"name": "Nights", "overrides": [{**span, "user": NOBODY}]})

    assert errors == {"overrides.0": [f"{NOBODY} is not a member of this account."]}


def test_a_step_names_its_targets_in_the_order_of_the_request(refuse, team, world):
    """Positions sort the steps, but the places are those of the request."""
    targets = [{"target_type": 2, "target_id": world.alice.username}, {"target_type": 2, "target_id": NOBODY}]
    rules = [
        {"delay": 5, "targets": targets, "position": 2},
        {"delay": 0, "targets": targets[:1], "position": 1},
    ]

    errors = refuse("POST", f"{team}/escalation_policies/", {"name": "Night", "rules": rules})

    assert errors == {"rules.0.targets.1": [f"{NOBODY} is not a member of this account."]}


@pytest.mark.parametrize("step", [{"delay": 0}, {"delay": 0, "targets": []}])
def test_a_step_needs_a_target(refuse, team, world, step):
    target = {"target_type": 2, "target_id": world.alice.username}

    errors = refuse(
        "POST", f"{team}/escalation_policies/", {"name": "Night", "rules": [{"targets": [target]}, step]}
    )

    text = "Must name at least one person or schedule: a step without a target notifies nobody."
    assert errors == {"rules.1.targets": [text]}


def test_a_step_names_a_schedule_that_it_may_not_use(refuse, team):
    rules = [{"targets": [{"target_type": 1, "target_id": NO_SUCH_ID}]}]

    errors = refuse("POST", f"{team}/escalation_policies/", {"name": "Night", "rules": rules})

    assert errors == {"rules.0.targets.0": [f"{NO_SUCH_ID} is not a schedule that this team may use."]}


def test_an_sla_names_its_responders(refuse, team):
    escalations = [{"time": 60, "type": 1, "responders": [{"user": NOBODY}]}]

    errors = refuse("POST", f"{team}/sla/", {"name": "Gold", "escalations": escalations})

    assert errors == {"escalations.0.responders.0": [f"{NOBODY} is not a member of this account."]}


def test_a_maintenance_names_its_services(refuse, team, world):
    body = {"start_time": "2026-03-02T17:00:00Z", "end_time": "2026-03-03T17:00:00Z"}

    errors = refuse(
        "POST", f"{team}/maintenance/", {**body, "services": [world.service.unique_id, NO_SUCH_ID]}
    )

    assert errors == {"services.1": [f"{NO_SUCH_ID} is not a service of this team."]}


def test_a_postmortem_names_its_incidents(refuse, team, world):
    body = {"author": world.alice.username, "incidents": [{"incident": "uJVWfdAeoPDm3pk2gG2URn"}]}

    errors = refuse("POST", f"{team}/postmortem/", body)

    assert errors == {"incidents.0": ["uJVWfdAeoPDm3pk2gG2URn is not an incident of this team."]}


def test_an_answer_names_a_limited_number_of_places(refuse, team):
    users = [{"user": NOBODY}] * 100
    layer = {"shift_length": 86400, "rotation_start_time": "2026-03-02T17:00:00Z", "users": users}

    errors = refuse("POST", f"{team}/schedules/", {"name": "Nights", "layers": [layer]})

    assert len(errors) == MAX_PLACES


def test_all_wrong_references_of_an_incident_are_named(refuse, world):
    ids = {"team_priority": NO_SUCH_ID, "sla": NO_SUCH_ID, "escalation_policy": NO_SUCH_ID}
    body = {"title": "x", "service": world.service.unique_id, "assigned_to": NOBODY, **ids}

    assert refuse("POST", "/api/incidents/", body).keys() == {*ids, "assigned_to"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("roles/", {"role": NO_SUCH_ID, "user": NOBODY}),
        ("tasks/", {"title": "Look", "role": NO_SUCH_ID, "assigned_to": NOBODY}),
    ],
    ids=["role", "task"],
)
def test_all_wrong_references_of_a_row_of_an_incident_are_named(refuse, ask, world, path, body):
    ask("POST", "/api/incidents/", {"title": "x", "service": world.service.unique_id})

    assert refuse("POST", f"/api/tocsin/incidents/1/{path}", body).keys() == body.keys() - {"title"}


def test_all_wrong_fields_of_a_postmortem_and_of_a_forwarding_rule_are_named(refuse, team, world):
    postmortem = {"author": NOBODY, "incidents": ["AAAAAAAAAAAAAAAAAAAAAA"], "title": "x"}
    rule = {"to_user": NOBODY, "from_date": "2026-03-05T00:00:00Z", "to_date": "2026-03-04T00:00:00Z"}

    refused = refuse("POST", f"{team}/postmortem/", postmortem)
    assert refused.keys() == {"author", "incidents.0"}
    path = f"/api/account/users/{world.bob.username}/forwarding_rules/"
    assert refuse("POST", path, rule).keys() == {"to_user", "to_date"}
