"""Every list is read from an index in the order of the list, for any number of incidents."""

import itertools

import pytest

from bench.servers.plans import list_scans, list_sorts
from models.store.store import db
from tests.support.offenders import list_offenders
from tests.support.stores import SERVER

ID = "00000000-0000-4000-8000-000000000000"

FILTERS = (
    {},
    {"status": -1},
    {"status": 0},
    {"status": 3, "all_teams": 0},
    {"team_ids": [ID]},
    {"service_ids": [ID]},
    {"user_ids": ["x"]},
    {"priority_ids": [ID]},
    {"priority_name": "P1"},
    {"tag_ids": [ID]},
    {"sla_ids": [ID]},
    {"escalation_policy_ids": [ID]},
    {"status": 0, "from_date": "2026-01-01", "to_date": "2026-02-01"},
    {"status": 0, "team_ids": [ID], "user_ids": ["x"], "tag_ids": [ID], "priority_name": "P1"},
)


@pytest.fixture
def incident_ids(ask, world):
    """The IDs of an incident and of its service, team and integration."""
    ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id})
    ids = {name: getattr(world, name).unique_id for name in ("team", "service", "integration")}
    return {f"{name}_id": unique_id for name, unique_id in ids.items()}


def list_page_statements(seen, table):
    """Return the statements that select the rows of a page."""
    return [each for each in seen if f'FROM "{table}"' in each[0] and " OFFSET " in each[0]]


def test_a_page_of_incidents_needs_no_sort(ask, incident_ids, statements):
    def check(case):
        who, limits = case
        with statements() as seen:
            assert ask("POST", "/api/incidents/filter/", limits, who=who).status_code == 200

        (chosen,) = list_page_statements(seen, "incident")
        assert list_scans(seen) == []
        assert list_sorts([chosen]) == []
        name = "incident_listed" if limits.get("status", 1) in (0, 3) else "incident_listed_open"
        assert is_index_only(chosen, name)

    assert list_offenders(check, itertools.product(["alice", "bob"], FILTERS)) == []


def is_index_only(chosen, name):
    """Return whether a statement reads only this index of lists and no row of the table.

    PostgreSQL can do so only for pages that were vacuumed.
    """
    if SERVER:
        return True
    plan = [row[3] for row in db.execute_sql(f"EXPLAIN QUERY PLAN {chosen[0]}", chosen[1]).fetchall()]
    return f"COVERING INDEX {name} " in plan[0]


def test_a_page_of_alerts_needs_no_sort(ask, incident_ids, statements):
    integration = "/api/account/teams/{team_id}/services/{service_id}/integrations/{integration_id}/alerts/"
    for path in ("/api/incidents/1/alerts/?page=1", integration.format(**incident_ids)):
        with statements() as seen:
            assert ask("GET", path, scheme="Token").status_code == 200

        (chosen,) = list_page_statements(seen, "event")
        assert list_scans(seen) == []
        assert list_sorts([chosen]) == []


@pytest.mark.parametrize("name", ["note", "tags", "responders"])
def test_sub_resources_of_an_incident_are_found_by_an_index(ask, incident_ids, statements, name):
    with statements() as seen:
        assert ask("GET", f"/api/incidents/1/{name}/").status_code == 200

    assert list_scans(seen) == []
