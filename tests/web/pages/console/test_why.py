"""Why somebody was or was not notified: traces, alerts that reached nobody, dead letters, simulation."""

from datetime import UTC, datetime

import pytest

from models.domain.enums import NotificationStatus, WorkState
from models.domain.reasons import make_reason
from models.tables.events import Event, Receipt
from models.tables.notifications import Notification
from tests.support.alerts import accept
from web.pages.console.why import build_picture
from workers.alerts import process_lane

STAGES = ("normalize", "route", "rules", "dedupe", "incident", "notify")


def build_alert(*stages: str, error=None, pending=None):
    reasons = [{"stage": stage, "reason": f"{stage} decided."} for stage in stages]
    return {"stages": reasons, "error": error, "pending_stage": pending}


@pytest.mark.parametrize(
    ("alert", "kinds"),
    [
        (build_alert(*STAGES), ["done"] * 6),
        (build_alert("normalize", "route", "rules"), ["done", "done", "end", "never", "never", "never"]),
        (build_alert("normalize", error="Broken."), ["done", "failed", "never", "never", "never", "never"]),
        (build_alert("normalize", pending="route"), ["done", "never", "never", "never", "never", "never"]),
        (build_alert(), ["never"] * 6),
    ],
    ids=["all stages", "ended at rules", "failed at route", "pending", "not begun"],
)
def test_the_picture_shows_how_far_an_alert_came(alert, kinds):
    assert kinds == [each["kind"] for each in build_picture(alert)]


def test_the_trace_shows_each_stage_with_its_reason(sign_in, open_incident):
    open_incident()
    text = sign_in("bob").get(f"/why/{Receipt.get().trace_id}/").text

    for stage in STAGES:
        assert f"<b>{stage}</b>" in text
    assert "Notified now: Alice." in text


def test_a_pasted_trace_id_leads_to_its_trace(sign_in, open_incident):
    open_incident()
    trace_id = Receipt.get().trace_id

    assert (
        sign_in("bob").get(f"/why/?trace_id=%20{trace_id.upper()}").headers["Location"] == f"/why/{trace_id}/"
    )


@pytest.mark.parametrize(("trace_id", "status"), [("nonsense", 400), ("'", 400)])
def test_a_text_that_is_no_trace_id_is_refused(sign_in, trace_id, status):
    assert sign_in("bob").get(f"/why/?trace_id={trace_id}").status_code == status


def test_an_unknown_trace_id_says_how_long_alerts_are_stored(sign_in):
    answer = sign_in("bob").get("/why/3f2c0e9a-1b7d-4c52-9a58-0c5d2f1e7a44/")

    assert answer.status_code == 404
    assert "Alerts are deleted" in answer.text


def test_an_alert_that_notified_nobody_is_listed_with_its_reason(sign_in, world):
    accept(world, datetime.now(UTC), message="Nobody hears this", alert_type="info", entity_id="x")
    process_lane.run(world.service.id)
    text = sign_in("bob").get("/why/").text

    assert "Nobody hears this" in text
    assert "Info alerts open no incident here." in text
    # That its processing went well would look as if somebody got a message.
    assert ">completed<" not in text


def test_an_alert_that_notified_somebody_is_not_listed(sign_in, open_incident):
    open_incident("Heard by Alice")
    Notification.update(state=NotificationStatus.SENT).execute()

    assert "Heard by Alice" not in sign_in("bob").get("/why/").text


def test_alerts_of_other_teams_are_not_listed(sign_in, open_incident):
    open_incident("Secret")

    assert "Secret" not in sign_in("charlie").get("/why/").text


def test_a_dead_letter_is_replayed(sign_in, open_incident):
    open_incident()
    Event.update(state=WorkState.DEAD_LETTER, error=make_reason("requested", by="x")).execute()
    browser = sign_in("bob")
    browser.get("/why/")
    browser.post(f"/why/dead-letters/{Event.get().unique_id}/replay/")

    assert "The dead letter is replayed." in browser.follow().text
    assert browser.post(f"/why/dead-letters/{Event.get().unique_id}/replay/").status_code == 404


def test_the_form_says_who_would_be_notified_at_another_time(sign_in, world):
    browser = sign_in("bob")
    browser.get("/why/simulate/")
    form = {"integration": world.integration.unique_id, "message": "Disk full", "alert_type": "critical"}
    text = browser.post("/why/simulate/", **form, at="2026-03-07T03:00").text

    assert "<b>Alice</b> is notified at once, <time" in text
    assert "Sat 7 Mar 2026, 03:00:00 UTC" in text
    assert Receipt.select().count() == 0


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"at": "tomorrow"}, "Must be a date and time"),
        ({"at": "2026-03-07T03:00Z"}, "without a name of it"),
        ({"integration": "x"}, "Integration"),
    ],
    ids=str,
)
def test_a_wrong_form_keeps_its_values_and_says_why(sign_in, world, form, reason):
    browser = sign_in("bob")
    browser.get("/why/simulate/")
    answer = browser.post(
        "/why/simulate/", **{"integration": world.integration.unique_id, "message": "My words", **form}
    )

    assert answer.status_code == 400
    assert reason in answer.text
    assert "My words" in answer.text


@pytest.mark.parametrize("asked", ["7", "%237", "0007"])
def test_a_number_leads_to_its_incident(sign_in, asked):
    answer = sign_in("bob").get(f"/why/?trace_id={asked}")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/incidents/7/")
