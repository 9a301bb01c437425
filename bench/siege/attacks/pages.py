"""Forms, and questions of pages."""

import json
from collections.abc import Iterator

from bench.siege import bodies
from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant

FORMS = "forms of 1 MiB"
EVENTS = "512 KiB to event APIs, unknown keys"
TRIAL = "source/try with 500 KB"
DOCUMENTS = "exports, calendars, figures"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Yield forms and large events of strangers, and costly questions of a person who is signed in."""
    url = tenant.base_url
    fields = b"a&" * 524_288
    forms = [Request(path, fields, FORM) for path in ("/sign-in/", "/join/x")]
    events = [Request(path, body) for path, body in bodies.list_unknown_events()]
    payload = {"list": [[[]]] * 32_000, "text": bodies.TEXT[:200_000]}
    trial = Request(
        f"/api/tocsin/integrations/{tenant.generic.unique_id}/source/try/",
        json.dumps({"body": {"message": "m", "payload": payload}}).encode(),
        tenant.headers,
    )
    asked = ("/figures/?days=90", "/incidents/1/postmortem.md", "/on-call/")
    documents = [Request(path, headers=tenant.cookie, method="GET") for path in asked]
    documents += [Request(f"{tenant.calendar_path}?n={number}", method="GET") for number in range(len(asked))]
    yield Requests(FORMS, url, lambda number: forms[number % len(forms)], threads=35, pause_s=0.2)
    yield Requests(EVENTS, url, lambda number: events[number % len(events)], threads=8, pause_s=0.2)
    yield Requests(TRIAL, url, lambda _: trial, threads=4, pause_s=0.2)
    yield Requests(DOCUMENTS, url, lambda number: documents[number % len(documents)], threads=6, pause_s=0.2)
