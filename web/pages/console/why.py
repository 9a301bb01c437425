"""Why somebody was or was not notified: the trace of an alert, alerts that reached nobody, dead letters."""

import re
from datetime import timedelta
from typing import cast
from urllib.parse import quote

from flask import Response, request

from models.domain.identity import is_uuid
from models.reports import recent
from models.reports.alert_trace import JsonDict
from models.reports.dead_letters import DeadLetter
from pipeline.topology import STAGES
from web.http import access, paging
from web.http.auth import now, viewer
from web.http.errors import ApiError, BadRequest, NotFound
from web.ingest.events import load_trace
from web.operations import dead_letters
from web.pages import forms
from web.pages.base import redirect_to
from web.pages.console.page import redirect_done, refuse, render

PERIOD = timedelta(hours=24)
MAX_ALERTS = 100
MAX_DEAD_LETTERS = 50
_NUMBER = re.compile("#?[0-9]{1,12}")
# Alerts on a page of a trace.
TRACE_SIZE = 20

MEANINGS = {
    "normalize": "reads the body of the monitoring tool",
    "route": "chooses integrations, if the alert was sent to a router",
    "rules": "applies the alert rules",
    "dedupe": "compares with earlier alerts of the same entity",
    "incident": "opens or joins an incident, or none",
    "notify": "notifies people",
}


def show() -> Response:
    """Show alerts of the last 24 hours that reached nobody, and dead letters.

    A trace_id opens its trace, and a number its incident, whose page leads to the traces of its alerts.
    """
    asked = request.args.get("trace_id", "").strip().lower()
    if _NUMBER.fullmatch(asked):
        return redirect_to(f"/incidents/{int(asked.removeprefix('#'))}/")
    if asked and not is_uuid(asked):
        error = BadRequest(
            detail="Write the number of an incident, for example 12, or the trace_id of an alert, for example"
            " 3f2c0e9a-1b7d-4c52-9a58-0c5d2f1e7a44."
        )
        return refuse(error, "This is no number and no trace_id", "/why/")
    if asked:
        return redirect_to(f"/why/{quote(asked)}/")
    teams = None if viewer().is_admin else access.select_permitted_teams(viewer())
    found = recent.list_alerts_without_notification(viewer().account, now() - PERIOD, MAX_ALERTS + 1, teams)
    return render(
        "why.html",
        alerts=found[:MAX_ALERTS],
        has_more=len(found) > MAX_ALERTS,
        searched=recent.MAX_SEARCHED,
        letters=_list_dead_letters(),
        is_admin=viewer().is_admin,
        done=forms.read_done(),
    )


def _list_dead_letters() -> dict[str, object]:
    """Return the newest dead letters that the person may see, each with whether the person may replay it."""
    page = dead_letters.find_page(viewer(), paging.Page(1, MAX_DEAD_LETTERS))
    found = cast("list[DeadLetter]", page["results"])
    replayable = dead_letters.list_replayable(viewer(), found)
    shown: list[dict[str, object]] = dead_letters.DEAD_LETTER.dump(found, many=True)
    return {"results": [{**each, "may_replay": each["id"] in replayable} for each in shown]}


def show_trace(trace_id: str) -> Response:
    """Show what each stage of the pipeline decided about the alerts of a request, and why."""
    page = paging.Page(paging.read_page().number, TRACE_SIZE)
    try:
        trace = load_trace(viewer(), trace_id, page)
    except NotFound as error:
        return refuse(error, "This alert is not stored", "/why/")
    return render(
        "trace.html",
        trace=trace,
        pictures=[{**alert, "picture": build_picture(alert)} for alert in trace["alerts"]],
        number=page.number,
        newer=trace["previous"] is not None,
        older=trace["next"] is not None,
    )


def build_picture(alert: JsonDict) -> list[dict[str, object]]:
    """Return all stages of the pipeline in order, each with what it decided about this alert.

    The last stage that ran ends the way of the alert, unless it is the last one of the pipeline. A stage
    without a reason did not run.
    """
    reasons = {each["stage"]: each["reason"] for each in alert["stages"]}
    names = [stage.name for stage in STAGES]
    ran = [name for name in names if name in reasons]
    error, pending = alert.get("error"), alert.get("pending_stage")
    pictures = []
    for name in names:
        kind = "done" if name in reasons else "never"
        if ran and name == ran[-1] and name != names[-1] and not error and not pending:
            kind = "end"
        pictures.append(
            {"name": name, "meaning": MEANINGS.get(name, ""), "kind": kind, "reason": reasons.get(name, "")}
        )
    return _mark_stop(pictures, error, pending)


def _mark_stop(
    pictures: list[dict[str, object]], error: str | None, pending: str | None
) -> list[dict[str, object]]:
    """Mark the first stage that did not run as failed or pending, if the alert stopped there."""
    for each in pictures:
        if each["kind"] == "never" and (error or pending):
            return [
                {**one, "kind": "failed" if error else "never", "reason": error or "Not processed yet."}
                if one is each
                else one
                for one in pictures
            ]
    return pictures


def replay(dead_letter_id: str) -> Response:
    """Process a dead letter again."""
    try:
        answer = dead_letters.replay_one(viewer(), dead_letter_id)
    except ApiError as error:
        return refuse(error, "The dead letter was not replayed", "/why/")
    return redirect_done("/why/", answer["message"])
