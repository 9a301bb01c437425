"""The exact text of messages."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import AlertType, IncidentStatus, Urgency
from models.domain.values import replace
from pipeline.messages.account import InvitationDetails, build_invitation_content, build_test_content
from pipeline.messages.content import Action, Recipient, write_plain_text
from pipeline.messages.incidents import (
    MAX_LISTED,
    IncidentDetails,
    IncidentSummary,
    NextStep,
    build_incidents_content,
    is_openable,
    list_labels,
)
from pipeline.messages.times import format_time

NOON = datetime(2026, 3, 4, 12, 0, 5, tzinfo=UTC)
ALICE = Recipient("Alice", "Europe/Berlin")

DISK = IncidentSummary(
    number=12,
    title="Disk full on db1",
    service="Checkout",
    urgency=Urgency.HIGH,
    level=AlertType.CRITICAL,
    since=NOON,
    reason="named by step 1 of policy Default",
    link="https://tocsin.example.org/i/abc",
    summary="97% of /var",
)


def build_facts(count: int) -> list[IncidentSummary]:
    return [
        replace(DISK, number=n, title=f"Disk {n}", link=f"https://tocsin.example.org/i/{n}.")
        for n in range(1, count + 1)
    ]


def test_a_message_about_one_incident_has_this_text():
    words = build_incidents_content([DISK], ALICE)

    assert words.title == "[Checkout] #12 Disk full on db1 (critical)"
    assert write_plain_text(words) == (
        "Disk full on db1\n"
        "\n"
        "Where:    Checkout\n"
        "How bad:  critical, high urgency\n"
        "Since:    Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)\n"
        "Incident: #12\n"
        "Why you:  named by step 1 of policy Default\n"
        "\n"
        "See it, acknowledge it or resolve it (no login needed, for 7 days):\n"
        "https://tocsin.example.org/i/abc\n"
        "\n"
        "97% of /var\n"
    )


def test_the_trace_ids_of_the_alerts_that_opened_the_incidents_are_at_the_foot():
    first, second = replace(DISK, trace_id="186ad360"), replace(DISK, number=13, trace_id="297be471")
    single = write_plain_text(build_incidents_content([first], ALICE))
    group = write_plain_text(build_incidents_content([first, second, replace(DISK, number=14)], ALICE))

    assert single.endswith("\n97% of /var\n\ntrace_id: 186ad360\n")
    assert group.endswith("\n\ntrace_id of #12: 186ad360\ntrace_id of #13: 297be471\n")


BERLIN = "(Europe/Berlin)"
DETAILS = IncidentDetails(
    began_at=NOON - timedelta(minutes=3),
    labels=(("instance", "db1"), ("job", "node\r\nBcc: x@example.org")),
    sources=(("Runbook", "https://runbook.example.org/disk"), ("Bad", "javascript:alert(1)")),
    acknowledged_by="Bob",
    acknowledged_at=NOON + timedelta(minutes=1),
    next_steps=(NextStep(60, ("Bob", "Carol")),),
)


def test_a_message_about_one_incident_has_the_details_of_its_source_and_the_next_step():
    text = write_plain_text(build_incidents_content([replace(DISK, details=DETAILS)], ALICE))

    for line in (
        f"Began:          Wed 4 Mar 2026, 12:57:05 CET {BERLIN}, by the clock of the source",
        f"Received:       Wed 4 Mar 2026, 13:00:05 CET {BERLIN}",
        f"Acknowledged:   by Bob, Wed 4 Mar 2026, 13:01:05 CET {BERLIN}",
        "Next, in 1 min: Bob, Carol",
        "instance:       db1",
        "job:            node Bcc: x@example.org",
        "Runbook\nhttps://runbook.example.org/disk",
    ):
        assert f"\n{line}\n" in text
    assert "javascript" not in text


def test_a_large_payload_is_read_only_up_to_the_last_label_that_is_shown():
    class Payload(dict[str, object]):
        def items(self):
            return ((f"field {number}", number) for number in itertools.count())

    assert list_labels(Payload())[-1] == ("field 19", "19")


def test_a_message_about_more_incidents_has_no_details():
    text = write_plain_text(build_incidents_content([replace(DISK, details=DETAILS)] * 2, ALICE))

    assert "Next" not in text


def test_the_subject_says_that_an_sla_is_breached():
    breached = replace(DISK, sla="SLA gold BREACHED")

    assert build_incidents_content([breached], ALICE).title == (
        "[Checkout] SLA gold BREACHED: #12 Disk full on db1 (critical)"
    )
    assert build_incidents_content([breached] * 2, ALICE).title == (
        "[Checkout] SLA gold BREACHED: 2 incidents: Disk full on db1"
    )


def test_a_message_belongs_to_the_threads_of_its_incidents_and_is_urgent_if_one_of_them_is():
    low = replace(DISK, unique_id="b", urgency=Urgency.LOW)
    contents = [build_incidents_content(each, ALICE) for each in ([low], [replace(DISK, unique_id="a"), low])]

    assert [(each.threads, each.is_urgent) for each in contents] == [(("b",), False), (("a", "b"), True)]


def test_a_recovery_says_after_which_time_the_incident_is_resolved():
    resolved = replace(
        DISK,
        status=IncidentStatus.RESOLVED,
        resolved_at=NOON + timedelta(minutes=14),
        is_recovery=True,
        details=IncidentDetails(ended_by="resolved by Bob"),
    )
    one, many = (build_incidents_content([resolved] * count, ALICE) for count in (1, 2))

    assert one.title == "[Checkout] #12 Disk full on db1: resolved after 14 min"
    at = f"Wed 4 Mar 2026, 13:14:05 CET {BERLIN}"
    assert f"Resolved: {at}, after 14 min\n" in write_plain_text(one)
    assert "Because:  resolved by Bob\n" in write_plain_text(one)
    assert (one.is_urgent, one.links[0].actions) == (False, ())
    assert many.title == "[Checkout] 2 incidents are resolved: Disk full on db1"
    assert "resolved after 14 min\n" in write_plain_text(many)


def test_an_incident_offers_the_actions_that_its_status_allows():
    (link,) = build_incidents_content([replace(DISK, token="abc")], ALICE).links
    taken = replace(DISK, token="def", status=IncidentStatus.ACKNOWLEDGED)
    _, second = build_incidents_content([DISK, taken], ALICE).links

    assert link.actions == (Action("acknowledge", "abc"), Action("resolve", "abc"))
    assert second.actions == (Action("resolve", "def"),)


def test_a_message_can_have_no_level_and_no_service():
    words = build_incidents_content([replace(DISK, level=None, service=None, urgency=Urgency.LOW)], ALICE)

    assert words.title == "[(service deleted)] #12 Disk full on db1"
    assert "How bad:  low urgency\n" in write_plain_text(words)


def test_a_message_lists_each_incident_with_its_link():
    words = build_incidents_content(build_facts(3), ALICE)

    assert words.title == "[Checkout] 3 incidents: Disk 1, Disk 2, Disk 3"
    text = write_plain_text(words)
    assert text.startswith(
        "3 incidents are open. This one message is about all of them.\n"
        "Each link shows one incident, to acknowledge or to resolve it (no login needed, for 7 days).\n"
        "\n"
        "Why you: named by step 1 of policy Default\n"
        "\n"
        "#1 Disk 1\n"
    )
    assert (
        "#2 Disk 2\n"
        "  Checkout; critical, high urgency; since Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)\n"
        "  https://tocsin.example.org/i/2.\n"
        "\n"
        "#3 Disk 3\n"
    ) in text


def test_a_subject_contains_each_title_once():
    words = build_incidents_content([replace(one, title="Disk full") for one in build_facts(50)], ALICE)

    assert words.title == "[Checkout] 50 incidents: Disk full"


def test_a_message_about_many_incidents_lists_the_first_and_counts_the_others():
    words = build_incidents_content(build_facts(MAX_LISTED + 3), ALICE)

    assert write_plain_text(words).count("https://") == MAX_LISTED
    assert write_plain_text(words).endswith("and 3 more: #101, #102, #103\n")


def test_a_subject_counts_the_other_services():
    incidents_of_services = [DISK, replace(DISK, service="Search"), replace(DISK, service="Billing")]

    assert build_incidents_content(incidents_of_services, ALICE).title.startswith(
        "[Checkout and 2 more] 3 incidents"
    )


@pytest.mark.parametrize(
    "text",
    ["a\nb", "a\r\nBcc: x@y", "a\x00b", "a\u202eb\u2066", "x" * 70_000, "\ud800", "", "🔥" * 9_000],
    ids=["newline", "header", "nul", "bidi", "long", "surrogate", "empty", "emoji"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_hostile_text_is_shortened_and_has_no_newlines(text, count):
    hostile = replace(DISK, title=text, service=text, reason=text, summary=text)
    words = build_incidents_content([hostile] * count, Recipient(text, text))

    assert len(words.title) < 260
    for unfit in "\r\x00\u202e\u2066\ud800":
        assert unfit not in words.title + write_plain_text(words)
    assert "\n" not in words.title
    assert len(write_plain_text(words)) < 10_000
    assert DISK.link in write_plain_text(words)


def test_a_shortened_text_ends_with_dots():
    words = build_incidents_content([replace(DISK, title="word " * 100, summary="x" * 3_000)], ALICE)

    assert "... (critical)" in words.title
    assert write_plain_text(words).endswith("xxx ...\n")


@pytest.mark.parametrize(
    ("zone", "at", "words"),
    [
        ("UTC", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
        ("Europe/Berlin", NOON, "Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)"),
        ("Europe/Berlin", NOON + timedelta(days=60), "Sun 3 May 2026, 14:00:05 CEST (Europe/Berlin)"),
        ("America/Sao_Paulo", NOON, "Wed 4 Mar 2026, 09:00:05 -03 (America/Sao_Paulo)"),
        ("Nowhere/Else", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
        ("../../etc/passwd", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
        ("Europe", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
        ("", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
        ("\x00", NOON, "Wed 4 Mar 2026, 12:00:05 UTC"),
    ],
)
def test_times_are_in_the_readers_time_zone(zone, at, words):
    assert format_time(at, zone) == words
    assert format_time(at, zone, names_zone=False) == words.partition(" (")[0]


def test_a_test_message_says_that_nothing_happened():
    words = build_test_content("Bob", ALICE, NOON)

    assert words.title == "[Tocsin] Test message"
    assert write_plain_text(words) == (
        "Hello Alice,\n"
        "\n"
        "this is a test message of Tocsin. Nothing has happened. If you can read this, then this is a way"
        " to\nreach you when something does.\n"
        "\n"
        "Sent:    Wed 4 Mar 2026, 13:00:05 CET (Europe/Berlin)\n"
        "Because: Bob asked for a test message.\n"
    )


def test_an_invitation_names_the_account_the_teams_and_the_inviter():
    invited = InvitationDetails(
        "Example", ["Payments", "Search"], "Bob", "https://tocsin.example.org/join/abc"
    )

    words = build_invitation_content(invited, ALICE)

    assert words.title == "[Tocsin] Invitation to Example"
    assert write_plain_text(words) == (
        "Hello Alice,\n"
        "\n"
        "Bob invites you to Example on Tocsin, which notifies people when their\n"
        "services are in trouble.\n"
        "\n"
        "Team:    Payments\n"
        "Team:    Search\n"
        "\n"
        "Join here (once, within 7 days):\n"
        "https://tocsin.example.org/join/abc\n"
        "\n"
        "Tocsin may notify you of incidents by e-mail, whether you join or not. If you did not expect this,\n"
        "ask the person who invites you.\n"
    )


def test_names_in_an_invitation_have_no_newlines():
    hostile = "x\r\nBcc: eve@example.org\n" + "y" * 500

    words = build_invitation_content(
        InvitationDetails(hostile, [hostile], hostile, "https://x/join/y"), Recipient(hostile)
    )

    assert "\n" not in words.title
    assert len(words.title) < 100
    assert "\nBcc" not in write_plain_text(words)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://grafana:3000/d/1", True),
        ("https://runbook.example.org/disk?x=1#y", True),
        ("http://[2001:db8::1]:8080/", True),
        ("http://grafana.example.org:99999/x", False),
        ("https://h.example.org:abc/", False),
        ("http://a..b/", False),
        ("http://.", False),
        ("https://user:secret@example.org/", False),
    ],
)
def test_only_links_that_a_program_can_open_are_shown(url, expected):
    assert is_openable(url) == expected
