"""The page of the history: sentences, filters by links, and undo."""

import re

import pytest

from models.tables.changes import Change
from models.tables.services import Service


@pytest.fixture
def renamed(ask, world):
    """The change of the name of the service by Alice."""
    path = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/"
    assert ask("PATCH", path, {"name": "<b>Kiosk</b>"}).status_code == 200
    return Change.get()


def test_a_change_is_a_sentence_with_its_values(sign_in, world, renamed):
    page = sign_in("alice").get("/changes/")

    assert page.status_code == 200
    assert "Alice changed the service &lt;b&gt;Kiosk&lt;/b&gt;: name" in page.text
    assert "by the interface, token test" in page.text
    assert "<td>Checkout</td><td>&lt;b&gt;Kiosk&lt;/b&gt;</td>" in page.text


def test_the_page_is_empty_for_those_who_may_not_read_the_object(sign_in, world, renamed):
    assert "Kiosk" in sign_in("bob").get("/changes/").text
    page = sign_in("charlie").get("/changes/")
    assert page.status_code == 200
    assert "Kiosk" not in page.text
    assert "Nobody has changed the configuration yet" in page.text


def test_the_history_of_one_object_has_only_its_changes(ask, sign_in, world, renamed):
    ask("POST", f"/api/account/teams/{world.team.unique_id}/tags/", {"name": "database", "color": "red"})

    page = sign_in("alice").get(f"/changes/?object={renamed.object_id}")

    assert "Kiosk" in page.text
    assert "database" not in page.text


def test_each_filter_is_a_link_that_finds_something_or_says_so(sign_in, world, renamed):
    browser = sign_in("alice")
    page = browser.get("/changes/").text
    links = sorted(set(re.findall(r'href="[^"]*(/changes/\?[^"]*)"', page)))
    assert len(links) > 20

    for link in links:
        shown = browser.get(link.replace("&amp;", "&"))
        assert shown.status_code == 200, link
        assert ("Kiosk" in shown.text) != ("No change matches" in shown.text), link


def test_a_wrong_filter_is_refused_with_the_reason(sign_in, world):
    page = sign_in("alice").get("/changes/?kind=planet")

    assert page.status_code == 404
    assert "Must be one of" in page.text


def test_the_button_undoes_a_change(sign_in, world, renamed):
    browser = sign_in("alice")
    path = f"/changes/{renamed.unique_id}/undo/"
    assert path in browser.get("/changes/").text

    answer = browser.post(path)

    assert answer.status_code == 303
    assert Service.get_by_id(world.service.id).name == "Checkout"
    last = Change.select().order_by(Change.id.desc()).first()
    assert (last.way, last.undoes) == ("page", renamed.unique_id)
    page = browser.get("/changes/").text
    assert "Alice undid a change of the service Checkout: name" in page
    assert path not in page


def test_an_undo_without_the_token_of_the_form_changes_nothing(sign_in, world, renamed):
    answer = sign_in("alice").post(f"/changes/{renamed.unique_id}/undo/", csrf="wrong")

    assert answer.status_code == 403
    assert Service.get_by_id(world.service.id).name != "Checkout"


def test_who_may_not_change_the_object_gets_no_button_and_a_refusal(sign_in, world, renamed):
    browser = sign_in("bob")
    path = f"/changes/{renamed.unique_id}/undo/"
    assert path not in browser.get("/changes/").text

    assert browser.post(path).status_code == 403
    assert Service.get_by_id(world.service.id).name != "Checkout"


def test_an_undo_of_a_deletion_says_before_what_does_not_come_back(ask, sign_in, world):
    path = f"/api/account/teams/{world.team.unique_id}/services/{world.service.unique_id}/"
    assert ask("DELETE", path).status_code == 204

    page = sign_in("alice").get("/changes/")

    assert "Incidents, alerts and messages do not come back." in page.text


def test_the_audit_list_and_the_history_link_to_each_other(sign_in, world):
    browser = sign_in("alice")

    assert "/changes/" in browser.get("/audit/").text
    assert "/audit/" in browser.get("/changes/").text
    assert "/audit/" not in sign_in("bob").get("/changes/").text
