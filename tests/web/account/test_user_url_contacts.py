"""Contacts whose addresses are URLs, and the secrets of webhooks."""

import itertools

import pytest

from models.domain.enums import ContactType, OtherContactType
from models.tables.users import ContactSecret
from runtime.settings import load
from tests.support.offenders import list_offenders

TYPES = [ContactType.MS_TEAMS, ContactType.GOOGLE_CHAT]
TYPES += [OtherContactType.MATTERMOST, OtherContactType.DISCORD, OtherContactType.WEBHOOK]
URL = "https://hooks.example.org/abc?key=d"


@pytest.fixture
def create(ask, world):
    def create(kind, value=URL, who="bob"):
        body = {"name": "Chat", "contact_type": int(kind), "value": value}
        return ask("POST", f"/api/tocsin/users/{world.bob.username}/contacts/", body, who=who)

    return create


@pytest.mark.parametrize("kind", TYPES)
def test_a_contact_with_a_url_is_created(create, kind):
    created = create(kind)

    assert (created.status_code, created.json["value"]) == (201, URL)


OTHER_FORMS = ["bob@example.org", "ftp://example.org/x", "http://a:b@example.org/"]


def test_other_addresses_are_refused(create):
    def check(case):
        kind, value = case
        refused = create(kind, value)

        assert refused.status_code == 400
        assert refused.json["errors"]["value"] == ["Not a URL that begins with https:// or http://."]

    assert list_offenders(check, itertools.product(TYPES, OTHER_FORMS)) == []


INNER = [
    "http://169.254.169.254/latest/meta-data",
    "http://127.1:8080/x",
    "https://[::1]/x",
    "http://10.0.0.1/x",
]


def test_an_address_in_an_inner_network_is_refused(create):
    def check(case):
        kind, value = case
        refused = create(kind, value)

        assert refused.status_code == 400
        assert "TOCSIN_WEBHOOK_NETWORKS" in refused.json["errors"]["value"][0]

    assert list_offenders(check, itertools.product([*TYPES, OtherContactType.NTFY], INNER)) == []


def test_a_contact_cannot_be_changed_to_an_inner_address(ask, create, world):
    contact = create(OtherContactType.WEBHOOK).json["unique_id"]
    path = f"/api/account/users/{world.bob.username}/contacts/{contact}/"

    assert ask("PATCH", path, {"value": INNER[0]}, who="bob").status_code == 400


def test_the_operator_allows_inner_addresses(create, app, monkeypatch):
    settings = load({"TOCSIN_WEBHOOK_NETWORKS": "10.0.0.0/24", "TOCSIN_NTFY_URL": "http://127.0.0.1:8090"})
    monkeypatch.setitem(app.config, "SETTINGS", settings)

    assert create(OtherContactType.WEBHOOK, "http://10.0.0.1/x").status_code == 201
    assert create(OtherContactType.NTFY, "http://127.0.0.1:8090/topic").status_code == 201
    assert create(OtherContactType.NTFY, "http://127.0.0.1:8091/topic").status_code == 400


def test_a_refused_port_is_named(create):
    assert (
        "port 80, 443"
        in create(OtherContactType.WEBHOOK, "http://example.org:6379/").json["errors"]["value"][0]
    )


def test_a_secret_is_shown_once_and_replaced(ask, create, world):
    contact = create(OtherContactType.WEBHOOK).json["unique_id"]
    path = f"/api/tocsin/users/{world.bob.username}/contacts/{contact}/secret/"

    first, second = (ask("POST", path, who="bob").json["secret"] for _ in range(2))

    assert first.startswith("whsec_")
    assert first != second
    assert [row.secret for row in ContactSecret.select()] == [second]
    assert second not in ask("GET", f"/api/account/users/{world.bob.username}/contacts/", who="bob").text


def test_only_webhooks_have_a_secret_and_only_their_owner_and_admins_get_it(ask, create, world):
    chat = create(OtherContactType.DISCORD).json["unique_id"]
    hook = create(OtherContactType.WEBHOOK).json["unique_id"]
    path = f"/api/tocsin/users/{world.bob.username}/contacts"

    refused = ask("POST", f"{path}/{chat}/secret/", who="bob")
    assert (refused.status_code, list(refused.json["errors"])) == (400, ["contact"])
    assert ask("POST", f"{path}/{hook}/secret/", who="charlie").status_code == 403
    assert ask("POST", f"{path}/{hook}/secret/", who="mallory").status_code == 404


@pytest.mark.parametrize(
    "value",
    [
        "http://ntfy.example.org:25/topic", "http://ntfy.example.org:6379/topic",
        "http://nt fy.example/topic",
        "http://ntfy_\u00e9.example/topic", "http://[::1/topic", "http://ntfy.example.org:x/topic",
        "http://ntfy.example.org\\evil/topic", "http:///x/topic",
    ],
)  # fmt: skip
def test_a_topic_to_which_nothing_can_be_sent_is_refused_when_it_is_stored(create, value):
    assert create(OtherContactType.NTFY, value).status_code == 400


def test_the_server_of_the_operator_may_have_any_port(create, app, monkeypatch):
    settings = load({"TOCSIN_NTFY_URL": "http://ntfy.example.org:81"})
    monkeypatch.setitem(app.config, "SETTINGS", settings)

    assert create(OtherContactType.NTFY, "http://ntfy.example.org:81/topic").status_code == 201
    assert create(OtherContactType.NTFY, "my-topic").status_code == 201
