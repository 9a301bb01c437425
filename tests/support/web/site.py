"""A running site for Chromium: a web server, people who are signed in, and pages of both sizes."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from models.domain.effects import Author
from models.domain.enums import AuthorKind, TargetType
from models.domain.reasons import make_reason
from models.sign_in import sessions
from models.sign_in.sessions import Browser
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.services import Integration
from models.tables.teams import EscalationPolicy
from runtime.settings import load
from tests.support.alerts import accept
from web.app import create_app
from web.incidents.change_status import change_status
from workers.alerts import process_lane

SIZES = {"phone": {"width": 390, "height": 844}, "desktop": {"width": 1280, "height": 800}}
# `make pages` sets it: the folder for screenshots.
FOLDER = "PAGES_FOLDER"
MAX_BYTES = 150_000


def serve_site(run_server, home: Path):
    """Start a web server with Tocsin. Its address is a secure context."""
    server = run_server()
    server.url = f"http://127.0.0.1:{server.port}"
    more = {"TOCSIN_WEBHOOK_NETWORKS": "127.0.0.0/8", "TOCSIN_DEBUG": "1"}
    server.settings = load({"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": server.url, **more})
    server.app = create_app(server.settings)
    return server


def open_page(chromium, site, user, size: str = "desktop", **options):
    """Open a page of Chromium in which this person is signed in; None: nobody.

    `problems` has what its console says, and requests to other hosts.
    """
    context = chromium.new_context(viewport=SIZES[size], base_url=site.url, **options)
    if user is not None:
        with store().write_transaction():
            secret = sessions.start(user, "password", Browser("Chromium", "127.0.0.1"), datetime.now(UTC))
        context.add_cookies([{"name": "tocsin-session", "value": secret, "url": site.url}])
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(site.url) or page.problems.append(asked.url))
    return page


def find_obstacles(page) -> str:
    """Return what axe finds: obstacles for people who use a screen reader or see little. Empty: nothing."""
    found = Axe().run(page)
    return found.generate_report() if found.violations_count else ""


def scrolls_sideways(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def keep_screenshot(page, name: str) -> None:
    """Write a screenshot of the page, if `make pages` asks for it."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    path = Path(folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)
    assert path.stat().st_size <= MAX_BYTES


def open_incidents(world, at: datetime | None = None) -> None:
    """Open three incidents of different levels with alerts that have labels and links."""
    at = at or datetime.now(UTC) - timedelta(minutes=4)
    alerts = {
        "db1": ("Disk full on db1", "critical"),
        "api": ("Error rate of checkout above 5 %", "error"),
        "queue": ("Queue of mails is longer than 10,000", "warning"),
    }
    for entity, (message, level) in alerts.items():
        accept(
            world,
            at,
            message=message,
            alert_type=level,
            entity_id=entity,
            summary="See the runbook.",
            payload={"labels": {"env": "production", "host": entity}},
            urls=[{"link_url": "https://runbook.example.org/disk", "link_text": "Runbook"}],
        )
    process_lane.run(world.service.id)


# Title, level, minutes ago, and whether somebody has acknowledged it.
NIGHT = (
    ("Checkout error rate above 5 % in eu-west-1", "critical", 2, False),
    ("Kafka consumer lag of orders-v2 grows", "error", 4, False),
    ("Certificate of api.example.org expires in 2 days", "warning", 38, True),
    ("Search p99 above 900 ms", "error", 71, True),
    ("Login failures above normal", "warning", 95, True),
    ("Memory of payments-api-7f9c above 95 %", "critical", 130, True),
    ("Nightly backup takes longer than 2 h", "warning", 190, True),
    ("Replica db3 does not replay", "error", 260, True),
)


def open_night(world) -> None:
    """Open what a team has at night: incidents of all levels, some acknowledged. The policy has two steps."""
    (first,) = world.policy.rules
    target = {"target_type": TargetType.USER, "target_id": world.bob.username, "position": 0}
    second = {"unique_id": make_uuid(), "delay": 5, "position": 2, "targets": [target]}
    EscalationPolicy.update(rules=[first, second]).where(EscalationPolicy.id == world.policy.id).execute()
    Integration.update(create_incidents_for=3).where(Integration.id == world.integration.id).execute()
    bump_version(world.account.id)
    for title, level, minutes, is_acknowledged in reversed(NIGHT):
        at = datetime.now(UTC) - timedelta(minutes=minutes)
        accept(world, at, message=title, alert_type=level, entity_id=title)
        process_lane.run(world.service.id)
        if is_acknowledged:
            row = Incident.select().order_by(Incident.id.desc()).get()
            author = Author(AuthorKind.USER, "Alice", user=world.alice.id)
            change_status(
                row.id, author, "acknowledge", make_reason("requested", by="Alice"), datetime.now(UTC)
            )
