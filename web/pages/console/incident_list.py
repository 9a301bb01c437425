"""The list of incidents: filters in the address, and actions on several incidents.

The page polls. The statement that answers a poll reads of each incident on the page only its number and its
last change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from models.domain.enums import IncidentStatus, Urgency
from models.reports.pages import incident_list
from models.tables.accounts import get_display_name
from models.tables.incidents import Incident
from pipeline.messages.content import ACTIONS
from web.http import access, paging, serialization
from web.http.access import Row
from web.http.auth import now, viewer
from web.http.errors import ApiError, BadRequest, NotFound
from web.http.resource import Parent, Resource
from web.incidents import filters
from web.incidents.actions import merge_incidents
from web.incidents.change_status import change_status
from web.incidents.sub_resource import build_viewer_author, explain_status
from web.pages import forms
from web.pages.base import redirect_to
from web.pages.console.page import answer_unchanged, build_etag, is_known, refuse, render
from web.pages.look.bar import count_open
from web.pages.look.incident_rows import find_next, get_level, load_alert_figures
from web.pages.look.on_call_strip import load_strip
from web.services.services import SERVICES
from web.teams.teams import TEAMS

PAGE_SIZE = 50
# A count stops here: to count 100,000 incidents takes longer than to show the page.
MAX_COUNT = 1_000
# Incidents that one form changes: those of a page.
MAX_CHOSEN = PAGE_SIZE

STATUSES = {filters.OPEN: "open", 1: "triggered", 2: "acknowledged", 3: "resolved", filters.ALL: "all"}

MERGE = "merge"
PAST = {"acknowledge": "acknowledged", "resolve": "resolved"}


def show() -> Response:
    """Show a page of the incidents that match the filter, newest first."""
    chosen = _read_filter()
    page = paging.read_page(default=PAGE_SIZE)
    changes = _load_changes(chosen, page)
    etag = build_etag(changes, request.query_string)
    if is_known(etag):
        return answer_unchanged(etag)
    return render(
        "incidents.html",
        etag=etag,
        rows=_load_rows([row for row, *_ in changes[: page.size]]),
        count=changes[0][2] if changes else 0,
        max_count=MAX_COUNT,
        chosen=chosen,
        statuses=STATUSES,
        teams=_list_choices(TEAMS),
        services=_list_choices(SERVICES),
        is_mine=viewer().user.username in (chosen.get("user_ids") or ()),
        username=viewer().user.username,
        newer=_build_address(page.number - 1) if page.number > 1 else "",
        older=_build_address(page.number + 1) if len(changes) > page.size else "",
        strip=load_strip(),
        tabs=_list_tabs(chosen),
        done=forms.read_done(),
        may_write=access.may_somewhere(viewer(), merge_incidents.permission),
    )


def _read_filter() -> dict[str, Any]:
    """Return the filter in the address. Raise BadRequest with the names of wrong fields."""
    asked = {name: value for name, value in filters.read_parameters().items() if value not in ("", [""])}
    asked = {name: asked[name] for name in asked if name in filters.FILTER.fields}
    return {"status": filters.OPEN, **serialization.load(filters.FILTER, asked)}


def _list_tabs(chosen: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the ready filters above the list, with their counts: the present one is marked."""
    counts, me = count_open(), viewer().user.username
    mine = {"user_ids": [me]}
    return [
        {
            "name": name,
            "count": count,
            "query": urlencode(query, doseq=True),
            "is_present": {"status": filters.OPEN, **query} == chosen,
        }
        for name, count, query in (
            ("Open", counts.text, {}),
            ("Mine", "", mine),
            ("Triggered", str(counts.triggered), {"status": int(IncidentStatus.TRIGGERED)}),
            ("Acknowledged", str(counts.acknowledged), {"status": int(IncidentStatus.ACKNOWLEDGED)}),
            ("Resolved", "", {"status": int(IncidentStatus.RESOLVED)}),
        )
    ]


def _load_changes(chosen: dict[str, Any], page: paging.Page) -> list[tuple[int, ...]]:
    """Return row, last change and count for each incident of the page and the next one."""
    found = filters.select_incidents(chosen)
    rows = incident_list.load_changes(found, viewer().account, page.start, page.size + 1, MAX_COUNT)
    if not rows and page.number > 1:
        raise NotFound
    return rows


def _list_choices(resource: Resource[Row, Parent]) -> list[dict[str, str]]:
    """Return the objects by which the list can be filtered: those that the viewer may read, oldest first.

    Only ids and names: all that the operations show of 200 services takes longer than the rest of the page.
    """
    return [{"unique_id": unique_id, "name": name} for unique_id, name in resource.list_names(viewer())]


def _load_rows(numbers: list[int]) -> list[dict[str, object]]:
    """Load what the page shows of the incidents with these row numbers, in this order."""
    figures, following = load_alert_figures(numbers), find_next(numbers, viewer().user.id)
    return [
        {
            **_describe(incident, tags),
            "level": get_level(figures.get(incident.id), incident.status, incident.urgency),
            "alerts": figures[incident.id].count if incident.id in figures else 0,
            "next": following.get(incident.id),
        }
        for incident, tags in incident_list.load_rows(numbers)
    ]


def _describe(incident: Incident, tags: list[str]) -> dict[str, object]:
    return {
        "number": incident.incident_number,
        "title": incident.title or "(no title)",
        "status": IncidentStatus(incident.status).name.lower(),
        "urgency": Urgency(incident.urgency).name.lower(),
        "service": incident.service.name if incident.service else "(service deleted)",
        "assignee": get_display_name(incident.assigned_to) if incident.assigned_to else "nobody",
        "since": incident.creation_date,
        "snoozed_till": incident.snoozed_till,
        "priority": incident.team_priority.name if incident.team_priority else "",
        "tags": tags,
        "parent": incident.parent_id is not None,
    }


def _build_address(number: int) -> str:
    """Return the address of another page with the same filter."""
    parameters = [pair for pair in request.args.items(multi=True) if pair[0] not in ("page", "done", "proof")]
    return f"?{urlencode([*parameters, ('page', number)])}"


def act() -> Response:
    """Acknowledge, resolve or merge the incidents that the form names."""
    references = list(dict.fromkeys(request.form.getlist("incident")))
    try:
        if not 0 < len(references) <= MAX_CHOSEN:
            raise BadRequest({"incidents": [f"Choose 1 to {MAX_CHOSEN} incidents."]})
        done = _act(request.form.get("act", ""), references)
    except ApiError as error:
        return refuse(error, "The incidents were not changed", "/")
    return redirect_to(f"/?{urlencode({**request.args.to_dict(), **forms.build_done(done)})}")


def _act(action: str, references: list[str]) -> str:
    """Do an action on these incidents. Return what happened as a sentence."""
    if action == MERGE:
        return _merge(references)
    if action not in ACTIONS:
        raise BadRequest({"act": ["Choose acknowledge, resolve or merge."]})
    found = access.find_incidents(replace(viewer(), permission="incident_write"), references)
    if len(found) < len(references):
        raise NotFound
    author = build_viewer_author()
    why = explain_status(ACTIONS[action][0])
    changed = [change_status(row.id, author, action, why, now()) for row in found.values()]
    return _describe_result(action, changed)


def _describe_result(action: str, changed: list[bool]) -> str:
    """Say how many incidents were changed. Somebody else may have been faster with the others."""
    done = f"{sum(changed)} {'incident' if sum(changed) == 1 else 'incidents'} {PAST[action]}."
    others = len(changed) - sum(changed)
    return f"{done} Not changed, because somebody else was faster: {others}." if others else done


def _merge(references: list[str]) -> str:
    """Merge the incidents into the first of them, the one with the lowest number."""
    parent, *children = sorted(references, key=lambda reference: (len(reference), reference))
    if not children:
        raise BadRequest({"incidents": ["Choose at least two incidents to merge."]})
    merge_incidents(viewer(), parent, {"incidents": children})
    return f"{len(children)} {'incident' if len(children) == 1 else 'incidents'} merged into #{parent}."
