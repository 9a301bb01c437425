"""Deleting what lanes refer to while one of them is at work, on a store whose rows are locked one by one."""

import threading

import psycopg
import pytest

from models.ids import new_uuid
from models.services import Service
from models.teams import EscalationPolicy, Priority, Sla
from tests.alerts import accept
from tests.stores import url_of
from tests.waiting import until

WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock'
"""


# What a team has: its table, and the column of the service that names it, if there is one.
ELEMENTS = {
    "sla": (Sla, "sla"),
    "priority": (Priority, "team_priority"),
    "escalation_policies": (EscalationPolicy, None),
}


@pytest.fixture
def found(world, now):
    """found(kind): the path and the row of something that a lane of Alice's team may refer to."""
    team = f"/api/account/teams/{world.team.unique_id}/"

    def find(kind):
        if kind == "team":
            return team, world.team
        if kind == "integration":
            path = f"{team}services/{world.service.unique_id}/integrations/{world.integration.unique_id}/"
            return path, world.integration
        table, column = ELEMENTS[kind]
        row = table.create(unique_id=new_uuid(), team=world.team, name="x", creation_date=now)
        if column:
            Service.update({column: row}).execute()
        return f"{team}{kind}/{row.unique_id}/", row

    return find


@pytest.mark.parametrize("kind", ["team", "integration", *ELEMENTS])
def test_who_deletes_what_a_lane_refers_to_waits_for_the_lane(world, now, store, home, ask, found, kind):
    """And not the lane for them: else each would wait for the other, and the store end one of the two."""
    if store.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    receipt = accept(world, now, message="m")
    path, row = found(kind)
    answers = []

    with psycopg.connect(url_of(home)) as lane, psycopg.connect(url_of(home), autocommit=True) as watch:
        lane.execute("select id from service where id = %s for no key update", (world.service.id,))
        lane.execute("update receipt set state = 1 where id = %s", (receipt.id,))
        deletion = threading.Thread(target=lambda: answers.append(ask("DELETE", path).status_code))
        deletion.start()
        until(lambda: watch.execute(WAITING).fetchone() == (1,))
        lane.execute("set local lock_timeout = '500ms'")
        lane.execute(f"select id from {row._meta.table_name} where id = %s for key share", (row.id,))
        lane.commit()
        deletion.join()

    assert answers == [204]
