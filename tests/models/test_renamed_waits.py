"""A database in which promises and ends had other names is brought up to date, and nobody notices."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from models.base import db, store
from models.incidents import Incident, IncidentLog
from models.migrate import migrate, pending
from models.notices import Notice
from models.services import Service
from models.teams import Sla
from models.timers import Timer
from tests.scenarios.test_sla_nights import R, sla
from tests.workers.test_timers import MINUTE, open_many, set_policy
from workers import audit, timers

NAME = "0010_names_of_waits"


def keys(table):
    """By their rows."""
    return dict(table.select(table.id, table.key).tuples())


def named_as_before():
    """Put every key as it was before: SLAs by row number, the end of an incident by its chain's."""
    with store().writing():
        for table in (Timer, Notice):
            for one in table.select(table, Incident).join(Incident):
                key = f":{one.key}"
                for each in Sla.select():
                    key = key.replace(f":sla:{each.unique_id[:8]}:", f":sla:{each.id}:")
                if one.kind == "auto_resolve":
                    key = f":auto_resolve:{one.incident.chain}"
                table.update(key=key[1:]).where(table.id == one.id).execute()


def upgrade(home):
    with store().writing():
        db.execute_sql(f"DELETE FROM schema_migration WHERE name = '{NAME}'")
    migrate(home)
    assert pending() == []


@pytest.fixture
def told(world, now):
    """Of three incidents, one of them in its third chain, Bob has heard that an answer is due, and that none
    came; that an end is due, Charlie is still to hear. Another SLA promises things alike to nobody."""
    set_policy(world, (0, world.alice))
    names = {"acknowledge": 15, "resolve": 60}
    people = (1, -5, world.bob), (1, 0, world.bob), (2, -10, world.charlie)
    sla(world, *people, name="Silver", **names)
    gold = sla(world, *people, name="Gold", **names)
    Service.update(sla=gold, auto_resolve_timeout=7_200).execute()
    open_many(world, now, "db1", "db2", "db3")
    begun = now + timedelta(minutes=3, microseconds=40)
    Incident.update(chain=3, chain_started_at=begun, timeouts_from=begun).where(Incident.id == 3).execute()
    Timer.update(key=f"auto_resolve:{begun:%Y%m%dT%H%M%S%f}", due_at=begun + timedelta(hours=2)).where(
        Timer.incident == 3, Timer.kind == "auto_resolve"
    ).execute()
    for minutes in (10, 15):
        timers.run_due(now + minutes * MINUTE)
    assert Notice.select().where(Notice.kind == "sla_acknowledge").count() == 6
    return now + 20 * MINUTE


def test_nothing_is_told_again_and_no_timer_is_mended(told, home):
    before = keys(Notice), keys(Timer)
    named_as_before()
    assert before[0] != keys(Notice)
    assert before[1] != keys(Timer)

    upgrade(home)
    with capture_logs() as logs:
        audit.audit(told)
        timers.run_due(told)

    assert (keys(Notice), keys(Timer)) == before
    assert [one for one in logs if one["log_level"] == "warning"] == []
    assert not IncidentLog.select().where(IncidentLog.what == "timers_mended").exists()


def test_without_it_all_is_told_again(told):
    before = Notice.select().count()
    named_as_before()
    audit.audit(told)
    timers.run_due(told)

    assert Notice.select().count() > before


def test_what_waits_comes_at_its_time(told, home, now):
    named_as_before()
    upgrade(home)
    timers.run_due(now + 50 * MINUTE)
    assert Notice.select().where(Notice.kind == "sla_resolve").count() == 3

    timers.run_due(now + timedelta(hours=2))
    assert [one.id for one in Incident.select().where(Incident.status < R)] == [3]

    timers.run_due(now + timedelta(hours=2, minutes=4))
    assert Incident.get_by_id(3).status == R


def test_what_was_told_again_already_keeps_the_upgrade_from_nothing(told, home):
    """Its names were changed, and nobody renamed what was there."""
    named_as_before()
    audit.audit(told)
    timers.run_due(told)
    before = Notice.select().count()
    upgrade(home)
    upgrade(home)
    with capture_logs() as logs:
        audit.audit(told)
        timers.run_due(told)

    assert Notice.select().count() == before
    assert [one for one in logs if one["log_level"] == "warning"] == []


def test_it_takes_as_many_statements_however_many_there_are(told, home, statements, world):
    named_as_before()
    with statements() as few:
        upgrade(home)
    for number in range(5):
        sla(world, (1, 0, world.bob), name=f"{number}", acknowledge=15)
    named_as_before()
    with statements() as many:
        upgrade(home)

    assert len(many) == len(few)
