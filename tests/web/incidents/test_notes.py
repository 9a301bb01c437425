"""Notes on an incident, and who may write, change and delete them."""

import pytest

from models.domain.enums import TeamRole
from models.store.ids import make_short_id, make_uuid
from models.tables.accounts import ConfigVersion
from models.tables.incidents import Incident, IncidentNote
from models.tables.teams import TeamMember
from tests.support.scenarios.incident_log import list_log_reasons
from web.http import paging

NOTES = "/api/incidents/1/note/"


@pytest.fixture(autouse=True)
def incident(ask, world):
    ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id})
    return Incident.get()


@pytest.fixture
def write(ask):
    def write(text="Looking into it", who="bob"):
        answer = ask("POST", NOTES, {"note": text}, who=who)
        assert answer.status_code == 201, answer.json
        return answer.json

    return write


def test_a_note_shows_its_author(write, ask, world, incident):
    note = write()

    assert (note["incident"], note["user"], note["user_name"]) == (1, world.bob.username, "Bob")
    assert len(note["unique_id"]) == 22
    assert ask("GET", f"/api/incidents/{incident.unique_id}/note/{note['unique_id']}").json == note


def test_notes_are_listed_oldest_first_and_paged_for_published_clients(write, ask):
    texts = [f"note {number}" for number in range(12)]
    for text in texts:
        write(text)

    array = ask("GET", NOTES).json
    page = ask("GET", f"{NOTES}?page=2", scheme="Token").json

    assert [note["note"] for note in array] == texts
    assert (page["count"], page["next"], page["results"]) == (12, None, array[10:])
    assert page["previous"].endswith("/note/?page=1&page_size=10")


def test_a_long_array_of_notes_leads_to_its_pages(write, ask, monkeypatch, statements):
    for number in range(5):
        write(f"note {number}")
    assert "Link" not in ask("GET", NOTES).headers
    monkeypatch.setattr(paging, "MAX_ARRAY", 3)
    with statements() as seen:
        first = ask("GET", NOTES)
    path = "<https://tocsin.example.org/api/incidents/1/note/?page={}&page_size={}>"

    assert [note["note"] for note in first.json] == ["note 0", "note 1", "note 2"]
    assert first.headers["Link"] == f'{path.format(1, 100)}; rel="first"'
    assert "LIMIT" in next(text for text, _ in seen if 'FROM "incident_note"' in text)
    page = ask("GET", f"{NOTES}?page=2&page_size=2")
    assert [note["note"] for note in page.json] == ["note 2", "note 3"]
    assert page.headers.get_all("Link") == [
        f'{path.format(3, 2)}; rel="next"', f'{path.format(1, 2)}; rel="previous"',
    ]  # fmt: skip


def test_a_note_of_a_rule_has_no_user(ask, incident, now):
    IncidentNote.create(
        unique_id=make_short_id(), incident=incident, user=None, note="Again", creation_date=now
    )

    (note,) = ask("GET", NOTES).json
    assert (note["user"], note["user_name"]) == (None, "Alert rule")


def test_the_text_is_cleaned_and_must_not_be_blank(write, ask):
    assert write("  a\x07b\u202e\r\nc\x00 ")["note"] == "ab\nc"
    assert len(write("x" * 16_384)["note"]) == 16_384
    for wrong in ("", "   ", "\x00\u200b", None, 7, ["x"]):
        assert ask("POST", NOTES, {"note": wrong}).status_code == 400
    assert ask("POST", NOTES, {}).status_code == 400


def test_a_member_changes_only_own_notes(write, ask, world, now):
    mine, alices = write(who="bob"), write(who="alice")

    def list_statuses(note):
        path = f"{NOTES}{note['unique_id']}/"
        verbs = (("PUT", {"note": "x"}), ("PATCH", {"note": "y"}), ("DELETE", None))
        return [ask(method, path, body, who="bob").status_code for method, body in verbs]

    assert list_statuses(alices) == [403, 403, 403]
    assert list_statuses(mine) == [200, 200, 204]
    TeamMember.update(role=TeamRole.MANAGER).where(TeamMember.user == world.bob).execute()
    assert list_statuses(alices) == [200, 200, 204]


def test_a_change_keeps_the_author_and_the_creation_date(write, ask):
    note = write()

    changed = ask("PUT", f"{NOTES}{note['unique_id']}/", {"note": "Found it"}, who="alice").json

    assert changed == {**note, "note": "Found it"}


def test_a_note_is_found_only_under_its_incident(write, ask, world):
    note = write()
    ask("POST", "/api/incidents/", {"title": "Other", "service": world.service.unique_id})

    for path in (f"/api/incidents/2/note/{note['unique_id']}/", f"{NOTES}{note['unique_id'].swapcase()}/"):
        assert ask("GET", path).status_code == 404


def test_each_write_is_in_the_timeline_and_does_not_change_the_configuration(write, ask, world):
    version = ConfigVersion.get(ConfigVersion.account == world.account).version
    note = write()
    ask("PUT", f"{NOTES}{note['unique_id']}/", {"note": "Found it"})
    ask("DELETE", f"{NOTES}{note['unique_id']}/")

    reasons = [str(reason) for reason in list_log_reasons("noted")]
    assert reasons == ["Note written by Bob.", "Note changed by Alice.", "Note deleted by Alice."]
    assert ConfigVersion.get(ConfigVersion.account == world.account).version == version


def test_an_unknown_note_is_not_found(ask):
    assert ask("GET", f"{NOTES}{make_short_id()}/").status_code == 404
    assert ask("DELETE", f"{NOTES}{make_uuid()}/").status_code == 404


def test_a_note_that_is_too_long_is_refused(ask):
    refused = ask("POST", NOTES, {"note": "x" * 16_385})

    assert (refused.status_code, IncidentNote.select().count()) == (400, 0)
    assert "Must have at most 16,384 characters." in refused.text
