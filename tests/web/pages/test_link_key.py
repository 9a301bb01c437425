"""`tocsin rotate-link-key` ends all links of before, while web processes run."""

from datetime import UTC, datetime

from models.links import signed_links
from models.links.signed_links import IncidentLink, Invitation
from models.tables.accounts import Secret
from tests.support.alerts import accept
from tests.support.processes import tocsin
from workers.alerts import process_lane


def list_links(ask, world) -> list[str]:
    """Return a path of each kind of link, signed with the present key."""
    signer, at = signed_links.get_signer(), datetime.now(UTC)
    address = ask("GET", "/api/tocsin/calendar/", who="bob").json["url"]
    return [
        f"/i/{signer.sign(IncidentLink(1, world.alice.id, 1), at)}",
        f"/join/{signer.sign_invitation(Invitation.for_user(world.bob), at)}",
        address.removeprefix("https://tocsin.example.org"),
    ]


def get_statuses(ask, links: list[str]) -> list[int]:
    return [ask("GET", link, who=None).status_code for link in links]


def test_all_links_of_before_end_also_in_a_web_process_that_runs(ask, world, home, now):
    accept(world, now, message="Disk full", alert_type="critical", entity_id="disk")
    process_lane.run(world.service.id)
    old = list_links(ask, world)
    assert get_statuses(ask, old) == [200, 200, 200]

    ended = tocsin(home, "rotate-link-key")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "All links of before are invalid" in ended.stdout
    assert get_statuses(ask, old) == [404, 404, 404]
    assert get_statuses(ask, list_links(ask, world)) == [200, 200, 200]
    # The key itself is shown nowhere.
    assert Secret.get(Secret.name == "links").value not in ended.stdout


def test_the_first_key_is_created_by_the_command_too(store, home):
    assert tocsin(home, "rotate-link-key").returncode == 0
    assert Secret.select().where(Secret.name == "links").count() == 1
