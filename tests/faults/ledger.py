"""Compares what senders were promised with what the tables and the mail server hold."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench import books
from bench.instance import Instance
from bench.sink import Sink
from models.base import connection
from models.enums import NoticeState, WorkState
from models.incidents import Incident
from models.notices import Message, Notice
from tests.faults.senders import Sender, Story

# How a mail names an incident.
NUMBER = re.compile(r"#(\d+)\b")
START = books.Mark(0, 0, 0)
# The address of whoever is told; must stand in no log.
OWNER = "nobody.in.particular@example.org"


def settled() -> bool:
    """Nothing waits to be worked on or to be sent."""
    return books.waiting() == 0


class Ledger:
    """The tables and the mail of one run, all read at once."""

    def __init__(self, sink: Sink) -> None:
        self.books = books.read(START, "", sink.arrivals())
        self.listed = {mail.message_id: set(map(int, NUMBER.findall(mail.text))) for mail in sink.mails}
        with connection():
            query = Notice.select(Notice, Message.message_id).join(Message)
            self.notices = [(row, row.message.message_id) for row in query]
            self.numbers = dict(_numbers())
            self.services = dict(Incident.select(Incident.id, Incident.service).tuples())

    def unprocessed(self, accepted: Mapping[str, str], stories: Mapping[str, Story]) -> list[str]:
        """Accepted alerts that did not come to the end of their road, as exactly one event a target."""
        return [
            trace_id
            for trace_id, entity in accepted.items()
            if not self._processed(trace_id, entity, stories[entity].targets)
        ]

    def _processed(self, trace_id: str, entity: str, targets: int) -> bool:
        row, state = self.books.receipts.get(trace_id, (0, -1))
        return state == WorkState.DONE and self.books.events.get(row) == [(entity, WorkState.DONE)] * targets

    def disordered(self, stories: Mapping[str, Story]) -> list[str]:
        """Entities whose incidents are not what their sender's order of words makes of them."""
        return [entity for entity, story in stories.items() if not self._in_order(entity, story)]

    def _in_order(self, entity: str, story: Story) -> bool:
        """At each of the services that it was told to."""
        by_service: dict[int, list[int]] = {}
        for incident in self.books.opened.get(entity, []):
            by_service.setdefault(self.services[incident], []).append(incident)
        told = [*by_service.values(), *[[]] * (story.targets - len(by_service))]
        return len(told) == story.targets and all(self._as_told(opened, story) for opened in told)

    def _as_told(self, opened: list[int], story: Story) -> bool:
        still_open = [incident for incident in opened if incident in self.books.open_incidents]
        if len(opened) not in story.incidents or len(still_open) > 1:
            return False
        return story.unknown is not None or len(still_open) == story.is_open

    def untold(self) -> list[str]:
        """Incidents without exactly one notice; notices neither in a mail nor void for a reason."""
        opened = {incident for incidents in self.books.opened.values() for incident in incidents}
        strange = [f"incident {row}" for row in opened if len(self.books.notices.get(row, ())) != 1]
        return strange + [
            f"notice {notice.key}" for notice, message in self.notices if not self._told(notice, message)
        ]

    def _told(self, notice: Notice, message: str) -> bool:
        if notice.state == NoticeState.VOID:
            return bool(notice.outcome) and notice.incident_id not in self.books.open_incidents
        listed = self.listed.get(message, set())
        return notice.state == NoticeState.SENT and self.numbers[notice.incident_id] in listed

    def told_twice(self) -> int:
        """Mails beyond the first of each message, and mails about what the tables call void."""
        arrivals = self.books.arrivals or {}
        sent = {message for notice, message in self.notices if notice.state == NoticeState.SENT}
        again = sum(len(moments) - 1 for moments in arrivals.values())
        return again + len(set(arrivals) - sent)

    def told(self) -> str:
        """The run in a line."""
        states = Counter(NoticeState(notice.state).name.lower() for notice, _ in self.notices)
        return (
            f"{len(self.books.receipts)} receipts, {len(self.books.opened_by)} incidents,"
            f" notices {dict(states)}, {len(self.listed)} messages, {self.told_twice()} told twice"
        )


def _numbers() -> Iterable[tuple[int, int]]:
    found: Iterable[tuple[int, int]] = Incident.select(Incident.id, Incident.incident_number).tuples()
    return found


def together(senders: Iterable[Sender]) -> tuple[dict[str, str], dict[str, Story]]:
    """All that was accepted, and every entity's story."""
    accepted: dict[str, str] = {}
    stories: dict[str, Story] = {}
    for sender in senders:
        accepted |= sender.accepted
        stories |= sender.stories
    return accepted, stories


def secrets_in_logs(instance: Instance) -> list[str]:
    """Secrets and addresses that stand in what the processes said, as `file: kind of secret`."""
    found = instance.credentials()
    words = {"token": found["token"], "integration_key": found["integration_key"]}
    words["other key"] = found["webhook_urls"]["prometheus"][0].rstrip("/").rpartition("/")[2]
    words["contact"] = OWNER
    return [
        f"{path.name}: {kind}"
        for path in _logs(instance)
        for kind, word in words.items()
        if word in path.read_text(errors="replace")
    ]


def _logs(instance: Instance) -> list[Path]:
    return [instance.log, *instance.home.glob("*.log")]
