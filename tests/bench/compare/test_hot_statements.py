"""The plans of the statements of an alert are searched for scans of large tables."""

import pytest

from bench.compare.hot_statements import StoppedInstance, collect_of_alerts, list_large_scans
from bench.servers.plans import collect_statements
from bench.servers.sink import Sink
from bench.traffic import Traffic
from models.store.store import db
from models.tables.events import Event
from models.tables.incidents import Incident
from tests.support.scenarios.processed_alerts import process_alert
from tests.support.stores import SERVER, get_url


@pytest.fixture
def analyzed(world, now):
    """Let the planner know the numbers of rows: three events of one incident."""
    if not SERVER:
        pytest.skip("needs PostgreSQL")
    for _ in range(3):
        process_alert(world, now)
    db.execute_sql("ANALYZE")


def test_the_statements_of_an_alert_scan_no_table(world, home):
    path = f"/integration/{world.account.account_identifier}/generic/{world.integration.integration_key}/"
    sink = Sink().start()
    try:
        requests = Traffic("plans", 4, 2).requests(f"http://127.0.0.1{path}")
        seen = collect_of_alerts(StoppedInstance(home, get_url(home), sink.port), requests)
    finally:
        sink.stop()

    assert (Event.select().count(), Incident.select().count(), len(sink.mails)) == (4, 2, 2)
    assert {"SELECT", "INSERT", "UPDATE"} <= {statement.split()[0] for statement, _ in seen}
    if SERVER:
        db.execute_sql("ANALYZE")
        assert list_large_scans(seen, 1) == []


def test_a_scan_of_a_large_table_is_found(analyzed):
    with collect_statements() as seen:
        list(Event.select(Event.id).where(Event.message == "x"))
        list(Event.select(Event.id).where(Event.id == 1))
        list(Incident.select(Incident.id).where(Incident.title == "x"))

    (scan,) = list_large_scans(seen, 2)
    assert "Seq Scan on event" in scan
    assert '"message" = ' in scan
