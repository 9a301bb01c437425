"""The page that the link in a bundle opens: the incidents of one message, for its recipient, without login.

It changes nothing. Each incident has a link to its own page.
"""

from flask import Response, request

from models.domain.enums import IncidentStatus, Urgency
from models.links import signed_links
from models.links.signed_links import IncidentLink
from models.reports.pages import bundles
from web.http.auth import now
from web.pages.base import render_page
from web.pages.link_rights import may_use

PAGE_SIZE = 50
# Bundles have fewer pages. Another number is the first page.
MAX_PAGE = 10_000


def show(token: str) -> Response:
    """Show the incidents of a bundle, with their present state."""
    at = now()
    try:
        link = signed_links.get_reader().read_bundle(token, at)
    except signed_links.ExpiredLink:
        return render_page("gone.html", 410, expired=True)
    except signed_links.BadLink:
        return render_page("gone.html", 404, expired=False)
    user = bundles.find_recipient(link.message, link.user)
    if user is None:
        return render_page("gone.html", 404, expired=False)
    page = _get_page()
    rows, total = bundles.list_notifications(link.message, user, page, PAGE_SIZE)
    signer = signed_links.get_signer()
    # The links end with that of the bundle.
    signed_at = signer.get_bundle_signing_time(token)
    incidents = [
        {
            "number": each.incident.incident_number,
            "title": each.incident.title,
            "status": IncidentStatus(each.incident.status).name.lower(),
            "urgency": Urgency(each.incident.urgency).name.lower(),
            "since": each.incident.creation_date,
            "link": signer.sign(IncidentLink(each.incident_id, user.id, each.id), signed_at),
        }
        for each in rows
        if may_use(user, each.incident, "incident_read", at)
    ]
    last = max((total + PAGE_SIZE - 1) // PAGE_SIZE, 1)
    return render_page(
        "bundle.html", 200, incidents=incidents, total=total, page=page, last=last, time_zone=user.time_zone
    )


def _get_page() -> int:
    text = request.args.get("page", "1")
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    return min(max(int(text), 1), MAX_PAGE) if is_number else 1
