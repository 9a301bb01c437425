"""Alerts of tools that can only request an address: the fields are in the query.

An integration takes them only if its set-up says so. A browser, a prefetch and a preview of a link send no
alert: people share addresses, and programs open them.
"""

import re

from flask import Response, request
from werkzeug.exceptions import MethodNotAllowed

from models.domain import identity
from models.domain.facts import NO_SETUP, SourceFacts
from models.store.limits import Use
from models.store.store import connection
from models.tables.services import Integration, SourceSetup
from pipeline.sources import mapping
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.forms import encode_fields
from pipeline.sources.table import SOURCES, Source
from web.http import serialization
from web.http.errors import BadRequest, NotFound
from web.ingest import events
from web.ingest.event_operation import build_accepted

# What browsers and programs send that open an address before a person does.
PURPOSES = ("Purpose", "Sec-Purpose", "X-Purpose", "X-Moz")
# Only browsers send this header.
BROWSER = "Sec-Fetch-Mode"
_PREVIEW = re.compile(
    r"slackbot|twitterbot|telegrambot|discordbot|linkedinbot|facebookexternalhit|facebot|whatsapp|skypeuripreview"
    r"|microsoftpreview|bingpreview|bingbot|googlebot|google-safety|embedly|iframely|redditbot|applebot|mattermost"
    r"|zulip|preview|prefetch|crawler|spider",
    re.IGNORECASE,
)
MAX_AGENT = 1_000


def create(extension: str, integration_key: str, account_id: str | None = None) -> Response:
    """Accept an alert whose fields are in the query, if the integration takes such requests."""
    source = SOURCES.get(extension)
    if source is None or not identity.is_uuid(integration_key):
        raise NotFound
    if _is_preview():
        raise BadRequest({"request": ["A browser, a prefetch or a preview of a link sends no alert."]})
    events.require_key(integration_key)
    setup = _find_setup(integration_key) if source.by_get else None
    if setup is None:
        raise MethodNotAllowed(["POST", "OPTIONS"])
    try:
        body = encode_fields(RequestBody(request.query_string).decode_form())
        _require_known_field(source, body, setup)
    except BadBody as error:
        raise BadRequest(error.errors) from None
    submission = events.ingest(extension, integration_key, account_id, raw=body)
    return serialization.build_response(build_accepted(submission, submission.assumed))


def _is_preview() -> bool:
    purposes = " ".join(request.headers.get(name, "") for name in PURPOSES)
    agent = request.headers.get("User-Agent", "")[:MAX_AGENT]
    return bool(purposes.strip() or BROWSER in request.headers or _PREVIEW.search(agent))


def _find_setup(key: str) -> SourceFacts | None:
    """Return the set-up of an integration that takes GET; None: it does not, or the key is of a router."""
    query = SourceSetup.select().join(Integration)
    with connection(Use.KEYS):
        row = query.where(Integration.integration_key == key, SourceSetup.accepts_get).first()
    return None if row is None else SourceFacts(None, row.mapping)


def _require_known_field(source: Source, body: bytes, setup: SourceFacts) -> None:
    """Raise BadBody if no field of a query is one that the source knows."""
    data = generic.decode_object(RequestBody(body))
    if setup.mapping is not None:
        is_known = mapping.has_known_field(setup.mapping, data)
    elif source.takes_forms:
        is_known = not generic.KNOWN_FIELDS.isdisjoint(data)
    else:
        alerts = source.parse(RequestBody(body, None, NO_SETUP))
        is_known = all(reason.code != "other_form" for alert in alerts for reason in alert.remarks)
    if not is_known:
        raise BadBody("", "has no field that the integration knows")
