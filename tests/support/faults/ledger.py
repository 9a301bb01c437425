"""Compare the accepted alerts with the tables and the mail server."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench import run_rows
from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.domain.enums import NotificationKind, NotificationStatus, WorkState
from models.store.store import connection
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from tests.support.faults.senders import EntityAlerts, Sender

# The reference to an incident in a mail.
NUMBER = re.compile(r"#(\d+)\b")
START = run_rows.Baseline(0, 0, 0)
# The address of the recipient; it must not appear in a log.
OWNER = "nobody.in.particular@example.org"


def is_done() -> bool:
    """Return whether no alert and no message is pending."""
    return run_rows.has_pending() == 0


class Ledger:
    """The tables and the mails of a run, loaded together."""

    def __init__(self, sink: Sink) -> None:
        self.run_rows = run_rows.load_run(START, "", sink.arrivals())
        self.listed = {mail.message_id: set(map(int, NUMBER.findall(mail.text))) for mail in sink.mails}
        with connection():
            query = Notification.select(Notification, Message.message_id).join(Message)
            self.notifications = [(row, row.message.message_id) for row in query]
            self.numbers = dict(_list_numbers())
            self.services = dict(Incident.select(Incident.id, Incident.service).tuples())

    def list_unprocessed(
        self, accepted: Mapping[str, str], sequences: Mapping[str, EntityAlerts]
    ) -> list[str]:
        """Return accepted alerts that are not processed, or not as exactly one event per target."""
        return [
            trace_id
            for trace_id, entity in accepted.items()
            if not self._is_processed(trace_id, entity, sequences[entity].targets)
        ]

    def _is_processed(self, trace_id: str, entity: str, targets: int) -> bool:
        row, state = self.run_rows.receipts.get(trace_id, (0, -1))
        return (
            state == WorkState.DONE and self.run_rows.events.get(row) == [(entity, WorkState.DONE)] * targets
        )

    def list_unordered(self, sequences: Mapping[str, EntityAlerts]) -> list[str]:
        """Return entities whose incidents do not match the order of their alerts."""
        return [entity for entity, sequence in sequences.items() if not self._is_in_order(entity, sequence)]

    def _is_in_order(self, entity: str, sequence: EntityAlerts) -> bool:
        """Return whether the incidents of an entity match its alerts at each service."""
        by_service: dict[int, list[int]] = {}
        for incident in self.run_rows.opened.get(entity, []):
            by_service.setdefault(self.services[incident], []).append(incident)
        incident_groups = [*by_service.values(), *[[]] * (sequence.targets - len(by_service))]
        return len(incident_groups) == sequence.targets and all(
            self._matches(opened, sequence) for opened in incident_groups
        )

    def _matches(self, opened: list[int], sequence: EntityAlerts) -> bool:
        still_open = [incident for incident in opened if incident in self.run_rows.open_incidents]
        if len(opened) not in sequence.incidents or len(still_open) > 1:
            return False
        return sequence.unknown is not None or len(still_open) == sequence.is_open

    def list_unnotified(self) -> list[str]:
        """Return incidents without exactly one notification, and pending notifications without a mail."""
        opened = {incident for incidents in self.run_rows.opened.values() for incident in incidents}
        strange = [f"incident {row}" for row in opened if len(self.run_rows.notifications.get(row, ())) != 1]
        return strange + [
            f"notification {notification.key}"
            for notification, message in self.notifications
            if notification.kind != NotificationKind.RECOVERY and not self._is_sent(notification, message)
        ]

    def _is_sent(self, notification: Notification, message: str) -> bool:
        if notification.state == NotificationStatus.CANCELLED:
            return bool(notification.outcome) and notification.incident_id not in self.run_rows.open_incidents
        listed = self.listed.get(message, set())
        return (
            notification.state == NotificationStatus.SENT and self.numbers[notification.incident_id] in listed
        )

    def count_duplicates(self) -> int:
        """Return the number of repeated mails, and of mails with cancelled notifications."""
        return self.count_repeated() + self.count_stale()

    def count_repeated(self) -> int:
        """Return how many mails arrived again."""
        return sum(len(moments) - 1 for moments in (self.run_rows.arrivals or {}).values())

    def count_stale(self) -> int:
        """Return the number of mails in which all notifications were cancelled."""
        sent = {
            message
            for notification, message in self.notifications
            if notification.state == NotificationStatus.SENT
        }
        return len(set(self.run_rows.arrivals or {}) - sent)

    def summarize(self) -> str:
        """Summarize the run in a line."""
        states = Counter(
            NotificationStatus(notification.state).name.lower() for notification, _ in self.notifications
        )
        return (
            f"{len(self.run_rows.receipts)} receipts, {len(self.run_rows.opening_receipts)} incidents,"
            f" notified {dict(states)}, {len(self.listed)} messages, {self.count_duplicates()} sent twice"
        )


def _list_numbers() -> Iterable[tuple[int, int]]:
    found: Iterable[tuple[int, int]] = Incident.select(Incident.id, Incident.incident_number).tuples()
    return found


def merge_senders(senders: Iterable[Sender]) -> tuple[dict[str, str], dict[str, EntityAlerts]]:
    """Merge the accepted alerts and the entities of all senders."""
    accepted: dict[str, str] = {}
    sequences: dict[str, EntityAlerts] = {}
    for sender in senders:
        accepted |= sender.accepted
        sequences |= sender.sequences
    return accepted, sequences


def find_secrets_in_logs(instance: Instance) -> list[str]:
    """Return secrets and addresses in the output of the processes, as `file: kind of secret`."""
    found = instance.credentials()
    words = {"token": found["token"], "integration_key": found["integration_key"]}
    words["other key"] = found["webhook_urls"]["prometheus"][0].rstrip("/").rpartition("/")[2]
    words["contact"] = OWNER
    return [
        f"{path.name}: {kind}"
        for path in _list_logs(instance)
        for kind, word in words.items()
        if word in path.read_text(errors="replace")
    ]


def _list_logs(instance: Instance) -> list[Path]:
    return [instance.log, *instance.home.glob("*.log")]
