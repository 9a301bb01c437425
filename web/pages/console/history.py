"""The page of the history: who changed the configuration, with undo. It shows what the interface shows."""

from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import urlencode

from flask import Response, request

from models.changes.differences import Difference
from models.changes.sentences import describe_way, list_details
from models.domain.enums import Way
from web.changes import undo as undoing
from web.changes.changes import UNDO, find_changes
from web.changes.history import PAGE, QUERY, list_changes
from web.changes.kinds import list_kinds
from web.http import paging
from web.http.auth import viewer
from web.http.errors import ApiError
from web.http.fields import parse_moment
from web.pages import forms
from web.pages.console.page import redirect_done, refuse, render

PATH = "/changes/"
PAGE_SIZE = 50
FILTERS = tuple(field.data_key or name for name, field in QUERY.load_fields.items())
# The filters by links, with the text of each value.
ACTIONS = (("created", "created"), ("changed", "changed"), ("deleted", "deleted"))
WAYS = tuple((each.value, describe_way(each.value, None)) for each in Way)


def show() -> Response:
    """Show the changes that the person may read, newest first, by the filters in the address."""
    filters = {name: value for name in FILTERS if (value := request.args.get(name, "").strip())}
    try:
        page = paging.read_page(default=PAGE_SIZE)
        found = PAGE.dump(list_changes(viewer(), filters, page))
    except ApiError as error:
        return refuse(error, "There is no such list of changes", PATH)
    return render(
        "changes.html",
        changes=[_prepare(change) for change in found["results"]],
        filters=filters,
        kinds=[(noun, noun) for noun in sorted(list_kinds(), key=str.lower)],
        actions=ACTIONS,
        ways=WAYS,
        build_link=lambda **values: build_link(filters, **values),
        number=page.number,
        newer=found["previous"] is not None,
        older=found["next"] is not None,
        is_admin=viewer().is_admin,
        username=viewer().user.username,
        done=forms.read_done(),
    )


def build_link(filters: Mapping[str, str], **values: str | int | None) -> str:
    """Return the path of the page with these filters and other values of some of them; None: without it."""
    query = {name: value for name, value in {**filters, **values}.items() if value is not None}
    return f"{PATH}?{urlencode(query)}" if query else PATH


def _prepare(change: Mapping[str, object]) -> dict[str, object]:
    return {
        **change,
        "at": parse_moment(str(change["at"])),
        "how": describe_way(str(change["way"]), cast("str | None", change["token"])),
        "details": list(list_details(cast("Sequence[Difference] | None", change["fields"]))),
    }


def undo(change_id: str) -> Response:
    """Undo a change."""
    try:
        result = UNDO.dump(undoing.undo(find_changes(change_id)))
    except ApiError as error:
        return refuse(error, "The change was not undone", PATH)
    left = sorted({each["field"].replace("_", " ") for each in result["left"]})
    why = "since somebody changed them, or their values are not kept"
    more = f" These fields stay, {why}: {', '.join(left)}."
    return redirect_done(PATH, f"Undone: {', '.join(result['written'])}.{more if left else ''}")
