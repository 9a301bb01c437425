"""Senders that record which alerts got 2xx, and which got no answer."""

import json
import random
import threading
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

CRITICAL, RESOLVED = "critical", "resolved"
LIVE_ENTITIES = 40
MAX_IN_A_ROW = 8
# After this time without an answer, the outcome of a request is unknown.
TIMEOUT_S = 30.0


class Unknown(Exception):
    """There was no answer: the alert may or may not be accepted."""


@dataclass
class EntityAlerts:
    """The accepted alerts of an entity, in order. `unknown` is a last alert without an answer, `targets` the
    number of services that get the alerts."""

    targets: int = 1
    levels: list[str] = field(default_factory=list)
    unknown: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the entity must have an open incident."""
        return bool(self.levels) and self.levels[-1] == CRITICAL

    @property
    def incidents(self) -> set[int]:
        """Return the possible numbers of incidents: one per sequence of critical alerts."""
        runs = sum(
            level == CRITICAL and before != CRITICAL
            for before, level in zip([None, *self.levels], self.levels, strict=False)
        )
        may_open_another = self.unknown == CRITICAL and not self.is_open
        return {runs, runs + 1} if may_open_another else {runs}


class Connection:
    """A keep-alive connection."""

    def __init__(self, url: str) -> None:
        url_parts = urlsplit(url)
        self._path = url_parts.path
        self._connection = HTTPConnection(url_parts.hostname or "", url_parts.port, timeout=TIMEOUT_S)

    def send(self, alert: dict[str, object]) -> str | None:
        """Return the trace_id of an accepted alert, None without a connection. Raise Unknown otherwise."""
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError:
                # Refused, or reset because the listener was killed: nothing was sent yet.
                self._connection.close()
                return None
        try:
            self._connection.request("POST", self._path, json.dumps(alert))
            answer = self._connection.getresponse()
            answered = answer.read()
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise Unknown(type(error).__name__) from None
        if answer.status == 503:
            raise Unknown("503")
        assert answer.status in (200, 201), f"{answer.status} {answered[:200]!r}"
        trace_id: str = json.loads(answered)["trace_id"]
        return trace_id

    def close(self) -> None:
        self._connection.close()


class Sender(threading.Thread):
    """Sends alerts of its own entities, waits for each answer, and continues until it is stopped.

    Accepted alerts are never sent again. After an unknown outcome, an entity gets no more alerts.
    """

    def __init__(
        self,
        name: str,
        url: str,
        seed: int,
        stopping: threading.Event,
        pause_s: float,
        targets: int = 1,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.sequences: dict[str, EntityAlerts] = {}
        self.accepted: dict[str, str] = {}
        self.unknown = 0
        self.failure: Exception | None = None
        self._alert_connection = Connection(url)
        self._chance = random.Random(f"{seed} {name}")
        self._stopping = stopping
        self._pause_s = pause_s
        self._targets = targets
        self._live = [self._add_entity() for _ in range(LIVE_ENTITIES)]

    def _add_entity(self) -> str:
        name = f"{self.name}-{len(self.sequences)}"
        self.sequences[name] = EntityAlerts(self._targets)
        return name

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._send_in_a_row(self._chance.randrange(LIVE_ENTITIES))
                self._stopping.wait(self._chance.uniform(0, 2 * self._pause_s))
        except Exception as error:  # reported by the thread's owner
            self.failure = error
        finally:
            self._alert_connection.close()

    def _send_in_a_row(self, place: int) -> None:
        """Send several alerts of one entity, each after the answer to the previous one, to test the order."""
        for _ in range(self._chance.randint(1, MAX_IN_A_ROW)):
            if not self._stopping.is_set():
                self._send(place)

    def _send(self, place: int) -> None:
        entity = self._live[place]
        sequence = self.sequences[entity]
        level = RESOLVED if self._chance.random() < (0.35 if sequence.is_open else 0.15) else CRITICAL
        try:
            trace_id = self._send_until_taken(entity, level)
        except Unknown:
            self.unknown += 1
            sequence.unknown = level
            self._live[place] = self._add_entity()
            return
        if trace_id is not None:
            self.accepted[trace_id] = entity
            sequence.levels.append(level)

    def _send_until_taken(self, entity: str, level: str) -> str | None:
        """Send an alert until it is accepted. Return None if the sender was stopped before."""
        alert = {"message": f"{entity} is {level}", "alert_type": level, "entity_id": entity}
        while not self._stopping.is_set():
            trace_id = self._alert_connection.send(alert)
            if trace_id is not None:
                return trace_id
            self._stopping.wait(0.05)
        return None
