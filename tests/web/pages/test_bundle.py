"""The page that lists the incidents of a bundle."""

from datetime import UTC, datetime, timedelta

from models.domain.enums import MessageKind
from models.links.signed_links import Bundle, IncidentLink, get_signer
from models.tables.accounts import User
from models.tables.notifications import Message, Notification
from tests.support.delivery.http_channels import alert_at
from tests.support.scenarios.bundles import LIMIT, PUSH, deliver_to, inbox
from workers.delivery import deliver

__all__ = ["deliver_to", "inbox"]


def test_the_page_of_a_bundle_lists_its_incidents_with_a_link_each(world, now, inbox, ask):
    now = datetime.now(UTC)
    for number in range(LIMIT.most + 60):
        alert_at(world, now, f"db{number}", f"<b>Disk</b> {number}")
    deliver.send_due(PUSH, now)
    bundle = Message.get(Message.kind == MessageKind.BUNDLE)
    link = deliver_link(bundle, now)
    page = ask("GET", link, who=None)

    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert "60 incidents" in page.text
    assert "Page 1 of 2" in page.text
    assert "&lt;b&gt;Disk&lt;/b&gt; 10" in page.text
    assert page.text.count('href="../i/') == 50
    assert "<script" not in page.text
    second = ask("GET", f"{link}?page=2", who=None)
    assert second.text.count('href="../i/') == 10
    incident = second.text.split('href="..')[1].split('"')[0]
    assert "acknowledge" in ask("GET", incident, who=None).text


def deliver_link(bundle, now):
    return f"/b/{get_signer().sign_bundle(Bundle(bundle.id, bundle.user_id), now)}"


def test_another_token_or_a_removed_person_opens_no_bundle(world, now, inbox, ask):
    now = datetime.now(UTC)
    for number in range(LIMIT.most + 2):
        alert_at(world, now, f"db{number}", f"Disk {number}")
    deliver.send_due(PUSH, now)
    bundle = Message.get(Message.kind == MessageKind.BUNDLE)
    first = Notification.get()
    token = get_signer().sign(IncidentLink(first.incident_id, first.user_id, first.id), now)
    assert ask("GET", f"/b/{token}", who=None).status_code == 404
    assert ask("GET", deliver_link(bundle, now - timedelta(days=8)), who=None).status_code == 410
    User.update(removed_at=now).where(User.id == world.alice.id).execute()
    assert ask("GET", deliver_link(bundle, now), who=None).status_code == 404
