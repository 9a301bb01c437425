"""What the subject and the headers of a mail say about its alert."""

import json
from pathlib import Path

import pytest

from models.domain.enums import AlertType
from pipeline.sources.native.mail import read_subject
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES
from tests.support.offenders import list_offenders

CRITICAL, ERROR, WARNING, INFO = AlertType.CRITICAL, AlertType.ERROR, AlertType.WARNING, AlertType.INFO
RESOLVED, ACKNOWLEDGED = AlertType.RESOLVED, AlertType.ACKNOWLEDGED


def parse(**fields):
    body = {"subject": "CRITICAL: disk full", "text": "", "sender": "a@example.org", **fields}
    (alert,) = SOURCES["email"].parse(RequestBody(json.dumps(body).encode()))
    return alert


@pytest.mark.parametrize(
    ("subject", "level", "problem"),
    [
        ("CRITICAL: disk full", CRITICAL, "disk full"),
        ("Fwd: RE: [Resolved] Problem: Disk full", RESOLVED, "disk full"),
        ("Disk full - RESOLVED", RESOLVED, "disk full"),
        ("disk full has been resolved", RESOLVED, "disk full"),
        ("Resolved in 1h 5m 3s: Disk full", RESOLVED, "disk full"),
        ("RESOLVED: CRITICAL: disk full", RESOLVED, "disk full"),
        ("db1 is down", CRITICAL, "db1"),
        ("db1 is up!", RESOLVED, "db1"),
        ("Checkmk: db1/Disk WARN -> OK", RESOLVED, "checkmk: db1/disk"),
        ("Checkmk: db1/Disk OK -> CRIT", CRITICAL, "checkmk: db1/disk"),
        ('ALARM: "cpu" in EU (Ireland)', CRITICAL, '"cpu" in eu (ireland)'),
        ('OK: "cpu" in EU (Ireland)', RESOLVED, '"cpu" in eu (ireland)'),
        ("[web] [\u2705 Up] Shop", RESOLVED, "web"),
        ("[web] [\U0001f534 Down] Shop", CRITICAL, "web"),
        ("Warning: slow disk", WARNING, "slow disk"),
        ("ERROR in the shop", ERROR, "in the shop"),
        ("Info: backup done", INFO, "backup done"),
        ("ACKNOWLEDGEMENT: disk full", ACKNOWLEDGED, "disk full"),
        ("Checkmk: db1 DOWN -> UP", RESOLVED, "checkmk: db1"),
        ("Monitor is UP: shop", RESOLVED, "shop"),
        ("Monitor is DOWN: shop", CRITICAL, "shop"),
        ("web-1 OK", RESOLVED, "web-1"),
        ("[RECOVERY] Disk on db1 is OK!", RESOLVED, "disk on db1"),
        ("** RECOVERY Host Alert: db1 is UP **", RESOLVED, "host alert: db1"),
        # Words that say nothing about the state of the problem.
        ("BACK UP FAILED on db1", CRITICAL, "back failed on db1"),
        ("RECOVERY FAILED on db1", CRITICAL, "failed on db1"),
        ("The shop does not answer 200 OK", CRITICAL, "the shop does not answer 200"),
        ("HOST NAME CANNOT BE RESOLVED", CRITICAL, "host name cannot be resolved"),
        ("INFO SERVER CRASHED", CRITICAL, "server crashed"),
        ("CRITICAL: the login is not OK", CRITICAL, "the login is not ok"),
        ("CRITICAL: ticket NOT RESOLVED", CRITICAL, "ticket not resolved"),
        ("db1.example.org cannot be resolved", CRITICAL, "db1.example.org cannot be resolved"),
        ("UNRESOLVED tickets", CRITICAL, "unresolved tickets"),
        ("The start-up failed", CRITICAL, "the start-up failed"),
        ("High CPU on db1", CRITICAL, "high cpu on db1"),
    ],
)
def test_the_subject_has_the_level_and_the_problem(subject, level, problem):
    assert (parse(subject=subject).alert_type, read_subject(subject).problem) == (level, problem)


@pytest.mark.parametrize(
    ("subject", "level", "problem"),
    [
        ("[FIRING:1, RESOLVED:1] DiskFull", CRITICAL, "diskfull"),
        ("[RESOLVED:2, FIRING:1] DiskFull", CRITICAL, "diskfull"),
        ("ALARM: valve CLOSED", CRITICAL, "valve closed"),
        ("[ALERT] breaker CLOSED on feeder 3", CRITICAL, "breaker closed on feeder 3"),
        ("PROBLEM: port UP but no traffic", CRITICAL, "port but no traffic"),
        ("PROBLEM: port is UP but no traffic", CRITICAL, "port but no traffic"),
        ("FIRING: VPN tunnel isn't UP", CRITICAL, "vpn tunnel isn't"),
        ("Backup failed: 2 OK, 3 failed", CRITICAL, "backup failed: 2 , 3 failed"),
        ("Backup failed: 3 failed, 2 OK", CRITICAL, "backup failed: 3 failed, 2"),
        ("RAID degraded: 3 disks OK, 1 missing", CRITICAL, "raid degraded: 3 disks , 1 missing"),
        ("RAID degraded: 3 disks OK", CRITICAL, "raid degraded: 3 disks"),
        ("Failure: 3 of 5 replicas UP", CRITICAL, "failure: 3 of 5 replicas"),
        ("Failure: 3 of 5 replicas OK", CRITICAL, "failure: 3 of 5 replicas"),
        ("ERROR: name could not be RESOLVED", ERROR, "name could not be"),
        ("Name could not be RESOLVED", CRITICAL, "name could not be"),
        ("WARNING: ticket has not been RESOLVED", WARNING, "ticket has not been"),
        ("CRITICAL: 0 RESOLVED 3 open", CRITICAL, "0 3 open"),
        ("CRITICAL: 1 of 3 RESOLVED", CRITICAL, "1 of 3"),
        ("DEGRADED: 1 RESOLVED, 3 open", CRITICAL, "degraded: 1 , 3 open"),
        ("CRITICAL: 1 ACKNOWLEDGED, 2 new", CRITICAL, "1 , 2 new"),
    ],
)
def test_a_word_for_an_end_beside_a_problem_that_fires_does_not_end_it(subject, level, problem):
    assert (parse(subject=subject).alert_type, read_subject(subject).problem) == (level, problem)


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("[RESOLVED] CRITICAL: disk full", "disk full"),
        ("[FIRING:0, RESOLVED:2] DiskFull", "diskfull"),
        ("CRITICAL: disk full is RESOLVED", "disk full"),
        ("CRITICAL: disk full: RESOLVED", "disk full"),
        ("CRITICAL: disk full RESOLVED", "disk full"),
        ("CRITICAL: disk on db1 RESOLVED", "disk on db1"),
        ("Host down: web-02 RESOLVED", "host down: web-02"),
        ("CRITICAL: login failed - RESOLVED", "login failed"),
        ("ALARM RESOLVED: disk full", "disk full"),
        ("RESOLVED CRITICAL disk full", "disk full"),
        ("Incident RESOLVED: login failed", "incident : login failed"),
        ("RECOVERY Host db1 is UP", "host db1"),
        ("Monitor is UP: error page", "error page"),
        ("Disk full RESOLVED on db1", "disk full on db1"),
    ],
)
def test_a_word_for_an_end_where_states_stand_ends_the_problem(subject, problem):
    assert (parse(subject=subject).alert_type, read_subject(subject).problem) == (RESOLVED, problem)


TOOLS = json.loads((Path(__file__).parent / "mail_subjects.json").read_text())


def test_the_recovery_mail_of_a_tool_resolves_what_its_first_mail_opened():
    def check(tool):
        first, end = parse(subject=tool["fires"]), parse(subject=tool["ends"])

        assert (end.alert_type, end.entity_id) == (RESOLVED, first.entity_id)
        assert first.alert_type.name.lower() == tool.get("level", "critical")

    assert len(TOOLS) > 40
    assert list_offenders(check, TOOLS, lambda tool: tool["tool"]) == []


def test_no_two_tools_have_the_same_problem():
    problems = [read_subject(tool["fires"]).problem for tool in TOOLS if not tool["tool"].endswith(" on")]

    # The same problem with another severity, or of another tool about the same host.
    assert len(set(problems)) >= len(problems) - 6


@pytest.mark.parametrize(
    "subject",
    [
        "Backup failed to recover",
        "db1 has not recovered",
        "db1 could not be recovered",
        "db1 has not yet recovered",
        "Disk has never recovered",
        "db1 will be fixed",
        "The bug needs to be fixed",
        "2 of 3 nodes recovered",
        "Some nodes are back up",
        "Backup of db1 unsuccessful",
        "Backup of db1 was not successful",
        "3 of 5 backups successful",
        "Backup of db1 failed, backup of db2 successful",
        "Root login successful",
        "Login to admin succeeded",
        "[Success] root login from 10.0.0.1",
        "Success: sudo by bob",
        "The audit log was cleared",
        "Port 443 is closed",
        "Port 22: closed",
        "Account bob was deactivated",
        "Deactivated: account bob",
        "Nobody is back online",
        "db1 is not back to normal",
        "db1 isn't back up",
        "Waiting until db1 is back up",
        "Incident not resolved",
        "Ticket unresolved",
        "db1 only partially recovered",
        "db1 recovered but db2 is down",
        "The error returned",
        "The error has returned",
        "Restore of db1 failed",
        "Recovery of db1 failed",
        "Database recovery started",
        "Error code returned 500",
        "monit alert --  Action done nginx",
        "monit alert --  Connection failed nginx",
        "[VMware vCenter - Alarm Host] Alarm Host on esx1 changed status from Red to Gray",
        "Cache of shop: cleared",
        "WARNING: Load Restored to Warning Threshold with Value 3",
        "File exists: core.1234",
        "Power has not returned",
        "CRITICAL: replication lag fixed at 600 s",
    ],
)
def test_a_subject_that_does_not_say_an_end_is_no_recovery(subject):
    assert parse(subject=subject).alert_type is not RESOLVED


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("db1 is down since 02:14", "db1 is down since 03:14"),
        ("CPU of web-1 (97%)", "CPU of web-1 (98.5 %)"),
        ("Queue is full for 5 min", "Queue is full for 2 hours"),
        ("Job failed at 2026-03-01 02:14", "Job failed at 2026-03-02 02:14"),
    ],
)
def test_a_time_or_value_behind_the_subject_names_no_problem(first, again):
    assert parse(subject=first).entity_id == parse(subject=again).entity_id


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("No answer at 10.0.0.1", "No answer at 10.0.0.2"),
        ("Ticket 17", "Ticket 18"),
        ("Certificate expires on web-1", "Certificate expires on web-2"),
        ("Port 80 is down", "Port 443 is down"),
    ],
)
def test_numbers_that_name_the_problem_stay(first, other):
    assert parse(subject=first).entity_id != parse(subject=other).entity_id


def test_a_subject_without_a_word_for_its_level_is_critical_and_the_reason_says_so():
    alert = parse(subject="Disk full")

    assert (alert.alert_type, [reason.code for reason in alert.remarks]) == (CRITICAL, ["level_missing"])
    assert alert.has_default_level


@pytest.mark.parametrize(("subject", "is_default"), [("[FIRING:1] x", True), ("CRITICAL: x", False)])
def test_a_word_that_says_no_level_leaves_it_to_the_integration(subject, is_default):
    assert parse(subject=subject).has_default_level is is_default


def test_the_same_subject_of_two_senders_is_two_problems():
    first, other = (parse(**{"from": sender}) for sender in ("root@db1.example.org", "root@db2.example.org"))

    assert first.entity_id != other.entity_id


def test_without_a_from_the_senders_of_the_envelope_are_two_problems():
    first, other = (parse(sender=sender) for sender in ("root@db1.example.org", "root@db2.example.org"))

    assert first.entity_id == parse(**{"from": "root@db1.example.org"}).entity_id != other.entity_id


@pytest.mark.parametrize(
    "subject",
    [
        "** DOWNTIMESTART Host Alert: db1 is DOWN **",
        "** DOWNTIMEEND Service Alert: db1/Disk is CRITICAL **",
        "** DOWNTIMECANCELLED Service Alert: db1/Disk is OK **",
        "[DOWNTIMEREMOVED] Disk on db1 is CRITICAL!",
        "** FLAPPINGSTART Service Alert: db1/Disk is CRITICAL **",
        "[FLAPPINGSTOP] Disk on db1 is OK!",
        "** CUSTOM Service Alert: db1/Disk is CRITICAL **",
        "[CUSTOM] Disk on db1 is CRITICAL!",
    ],
)
def test_downtimes_flapping_and_messages_of_nagios_change_nothing(subject):
    alert = parse(subject=subject)

    assert (alert.alert_type, alert.suppressed) == (INFO, True)


@pytest.mark.parametrize(
    "subject",
    [
        "[CUSTOM] checkout failed",
        "CUSTOM: checkout failed",
        "Custom db is DOWN",
        "CUSTOM check checkout is DOWN",
        "CRITICAL: FLAPPINGSTART eth0",
    ],
)
def test_words_of_nagios_in_other_subjects_are_a_problem(subject):
    alert = parse(subject=subject)

    assert (alert.alert_type, alert.suppressed) == (CRITICAL, False)


def test_an_acknowledgement_of_nagios_acknowledges_its_problem():
    fires, acknowledges = (
        parse(subject=f"** {kind} Service Alert: db1/Disk is CRITICAL **")
        for kind in ("PROBLEM", "ACKNOWLEDGEMENT")
    )

    assert acknowledges.alert_type is ACKNOWLEDGED
    assert acknowledges.entity_id == fires.entity_id


def test_headers_of_the_sender_name_the_problem_and_the_level():
    alert = parse(subject="Disk at 97 %", entity_id="db1/var", level="warning")

    assert (alert.entity_id, alert.alert_type) == ("db1/var", WARNING)


def test_a_mail_without_a_subject_is_alone_and_shows_how_its_text_begins():
    alert = parse(subject="", text="Disk full\non db1")

    assert (alert.message, alert.entity_id) == ("Disk full", None)


def test_a_subject_of_words_for_a_state_only_is_about_its_sender():
    fires, ends = (parse(subject=subject, **{"from": "ups@example.org"}) for subject in ("ALERT", "OK"))

    assert fires.entity_id == ends.entity_id is not None
    assert ends.alert_type is RESOLVED


def test_long_subjects_that_differ_at_their_end_are_two_problems():
    first, other = (parse(subject="x" * 2_000 + end) for end in ("1", "2"))

    assert first.entity_id != other.entity_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"sender": ""}, "mail_without_sender"),
        ({"auto_submitted": "auto-generated"}, "mail_automatic"),
        ({"auto_submitted": "Auto-Replied; owner-email=x"}, "mail_automatic"),
        ({"precedence": "Bulk"}, "mail_automatic"),
        ({"precedence": "list"}, "mail_automatic"),
        ({"is_own": True}, "mail_own"),
    ],
)
def test_mails_that_programs_send_by_themselves_are_refused_with_the_reason(fields, code):
    assert parse(**fields).refusal.code == code


@pytest.mark.parametrize("fields", [{}, {"auto_submitted": "no"}, {"precedence": "first-class"}])
def test_other_mails_are_not_refused(fields):
    assert parse(**fields).refusal is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[" * 999,
            "CRITICAL " * 400,
            " - " * 999,
            "Re: " * 999,
            "1m " * 999,
            "is back " * 120,
            "at 1 " * 200,
        ),
        *("monit alert -- " + "a " * 490, "[a] " * 240, "alert " * 160, "backup " * 140, " from a to " * 90),
        *("x | Pipeline #1 has failed for " * 32, "Alert 'a' was " * 70, "a UPS " * 160, " changed " * 110),
    ],
)
def test_a_hostile_subject_needs_little_work(text):
    for _ in range(20):
        read_subject(text)
