"""The postmortem of an incident: write it, and export it with the facts as Markdown.

A postmortem is stored as HTML. The page shows and writes paragraphs of text. A postmortem with other elements
is from another client: the page shows its text, and does not overwrite it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape, unescape

from flask import Response, request

from models.reports import incident_timeline
from models.reports.pages.incident_rows import list_notes
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentNote
from web.http import access
from web.http.auth import viewer
from web.http.errors import ApiError, NotFound, reject
from web.http.resource import lock_row
from web.http.response_headers import PRIVATE_HEADERS
from web.incidents.schemas import fill
from web.pages import forms
from web.pages.console.incident import describe
from web.pages.console.page import CHANNEL_TITLES, format_moment_for_all, redirect_done, refuse, render
from web.teams.postmortems import POSTMORTEMS

MAX_TEXT = 100_000
MAX_ENTRIES = 1_000
# Characters of an export. Entries and notes of 16 KB each could make 16 MB.
MAX_EXPORT = 1_000_000
# Entries of the timeline that are loaded at once.
LOADED_ENTRIES = 100
_PARAGRAPH = re.compile(r"<p>([^<]*)</p>")
_TAG = re.compile(r"<[^<>]{0,1000}>")
TEMPLATE = "What happened\n\nImpact\n\nCauses\n\nWhat we do so that it does not happen again"


def show(incident: str) -> Response:
    """Show the postmortem of an incident, or the form for a new one."""
    row = _access(incident)
    found = _find(row)
    html = found["postmortem_data"] if found else ""
    return render(
        "postmortem.html",
        incident=row,
        found=found,
        title=found["title"] if found else f"Postmortem of #{row.incident_number}",
        text=to_text(html) if found else TEMPLATE,
        is_editable=is_plain(html),
        may_write=POSTMORTEMS.may(viewer(), "create", row.team),
        done=forms.read_done(),
        max_text=MAX_TEXT,
    )


def save(incident: str) -> Response:
    """Store the postmortem that the form contains."""
    row = _access(incident)
    path = f"/incidents/{row.incident_number}/postmortem/"
    try:
        with store().write_transaction():
            # What the form has seen stays true until the commit: other requests wait here.
            row = fill([lock_row(row)])[0]
            _store(row, *(request.form.get(name, "") for name in ("title", "text", "seen")))
    except ApiError as error:
        return refuse(error, "The postmortem was not stored", path)
    return redirect_done(path, "The postmortem was stored.")


def _store(row: Incident, title: str, text: str, seen: str) -> None:
    if len(text) > MAX_TEXT:
        reject("text", f"Must have at most {MAX_TEXT:,} characters.")
    found, team = _find(row), row.team.unique_id
    body: dict[str, object] = {"title": title, "postmortem_data": to_html(text)}
    if found is None:
        body |= {"author": viewer().user.username, "incidents": [row.unique_id], "status": "Draft"}
        POSTMORTEMS.create_row(viewer(), body, team_id=team)
        return
    if not is_plain(found["postmortem_data"]):
        reject("text", "Another client wrote this postmortem with a layout that this page would destroy.")
    if seen != found["updated_at"]:
        reject("text", "Somebody else changed the postmortem meanwhile. Load the page again.")
    POSTMORTEMS.change_row(viewer(), body, team_id=team, postmortem_id=found["unique_id"])


def export(incident: str) -> Response:
    """Send the incident, its timeline and its postmortem as Markdown."""
    row = _access(incident)
    text = _join(_write_export(row, _find(row)))
    name = f"incident-{row.incident_number}.md"
    headers = {**PRIVATE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, mimetype="text/markdown", headers=headers)


def _write_export(row: Incident, found: Mapping[str, str] | None) -> Iterator[str]:
    """Yield the lines of an export. What is not asked for is not loaded."""
    yield f"# #{row.incident_number} {to_markdown(row.title)}"
    yield ""
    for name, value in describe(row).items():
        if name != "Title":
            yield f"- {name}: {to_markdown(value)}"
    yield f"- Since: {format_moment_for_all(row.creation_date)}"
    yield ""
    yield f"## {to_markdown(found['title'] or 'Postmortem') if found else 'Postmortem'}"
    yield ""
    yield to_markdown(to_text(found["postmortem_data"])) if found else "There is none."
    yield ""
    yield "## Timeline"
    yield ""
    keys = list(incident_timeline.select_entries(row).limit(MAX_ENTRIES))
    for start in range(0, len(keys), LOADED_ENTRIES):
        piece = keys[start : start + LOADED_ENTRIES]
        for each in incident_timeline.load_entries((kind, number) for kind, number, _ in piece):
            sentence = _describe_entry(each["reason"], each["notification"])
            yield f"- {format_moment_for_all(each['at'])}: {to_markdown(sentence)}"
    yield ""
    yield from _write_notes(row)


def _join(lines: Iterable[str]) -> str:
    """Return the lines as a text of bounded length, which says that something is missing."""
    found, length = [], 0
    for line in lines:
        length += len(line) + 1
        if length > MAX_EXPORT:
            found.append(f"\nThe rest is left out: an export has at most {MAX_EXPORT:,} characters.")
            break
        found.append(line)
    return "\n".join(found)


def _describe_entry(reason: str, sent: Mapping[str, str] | None) -> str:
    """Return an entry of the timeline as a sentence. The reason of a message does not say who got it."""
    if sent is None:
        return reason
    channel = CHANNEL_TITLES.get(sent["channel"], sent["channel"])
    return f"{sent['person']} by {channel} ({sent['state']}). {reason}"


def _write_notes(row: Incident) -> list[str]:
    """Return the notes of people, the oldest first. Those of rules are entries of the timeline."""
    rows = reversed(list_notes(row, MAX_ENTRIES))
    notes = [_write_note(note, note.user) for note in rows if note.user]
    return ["## Notes", "", *notes, ""] if notes else []


def _write_note(note: IncidentNote, author: User) -> str:
    """Return a note as an entry of a list. Its rows belong to the entry."""
    text = "\n  ".join(to_markdown(note.note).splitlines())
    return f"- {format_moment_for_all(note.creation_date)}, {to_markdown(get_display_name(author))}: {text}"


def _access(incident: str) -> Incident:
    row = access.access_incident(viewer(), incident)
    return fill([row])[0]


def _find(row: Incident) -> dict[str, str] | None:
    """Return the first postmortem of an incident; None: it has none. Raise Forbidden without the right."""
    if not row.postmortems:
        access.require_permission(viewer(), row.team_id, POSTMORTEMS.permissions.read)
        return None
    try:
        return POSTMORTEMS.show_row(
            viewer(), team_id=row.team.unique_id, postmortem_id=row.postmortems[0]["unique_id"]
        )
    except NotFound:
        return None


def to_html(text: str) -> str:
    """Return a text as paragraphs."""
    parts = re.split(r"\n{2,}", text.replace("\r\n", "\n"))
    return "".join(f"<p>{escape(part.strip(), quote=False)}</p>" for part in parts if part.strip())


def is_plain(html: str) -> bool:
    """Return whether the HTML has only paragraphs of text."""
    return not _PARAGRAPH.sub("", html or "").strip()


def to_text(html: str) -> str:
    """Return the text of HTML, with an empty row between paragraphs."""
    return unescape(_TAG.sub("", (html or "").replace("</p>", "\n\n"))).strip()


# A row that begins so is an entry of a list, or makes the row before it a heading.
_RULE = re.compile(r"^(\s*)([-=+])", re.MULTILINE)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def to_markdown(text: str) -> str:
    """Return a text so that Markdown shows it as it is."""
    return _RULE.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text))
