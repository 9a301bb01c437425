"""A second sender that shares no code with bench/load.py, to check its figures.

It uses the streams of asyncio, with a task for each connection, and runs in a process of its own. So neither
the mail server nor the meter of the measurement takes the interpreter from it.
"""

import asyncio
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, time
from urllib.parse import urlsplit

from bench.load import Accepted, NoAnswer, Sent, get_alert_id
from bench.traffic import Request

ROOT = Path(__file__).parents[2]
# After this time without an answer, the run fails.
ANSWER_S = 30.0
# An import, because the main module of a process has another name for pickle.
COMMAND = (sys.executable, "-c", "from bench.compare.second_loader import main; main()")
# The process is ended after this time.
RUN_S = 600.0


@dataclass(frozen=True, slots=True)
class Job:
    """What the process gets: an address and the requests."""

    host: str
    port: int
    connections: int
    requests: list[bytes]


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to request number `number`, `ms` after it was written, at the wall-clock time `at`."""

    number: int
    status: int
    body: bytes
    ms: float
    at: float


@dataclass(slots=True)
class JobResult:
    """`repeated` counts requests that were sent again because their connection broke."""

    responses: list[Response] = field(default_factory=list)
    repeated: int = 0
    started_at: float = 0.0
    seconds: float = 0.0


class SecondLoader:
    """Sends each request until it is answered, over a number of connections, as fast as answers arrive."""

    def __init__(
        self,
        base_url: str,
        connections: int,
        *,
        rate: float | None = None,
        get_alert_id: Callable[[bytes], str] = get_alert_id,
        progress: Callable[[int], None] = lambda answered: None,
    ) -> None:
        """`progress` is not called. A rate is not possible."""
        if rate is not None:
            raise ValueError("the second loader has no rate")
        url = urlsplit(base_url)
        self._host, self._port = url.hostname or "127.0.0.1", url.port or 80
        self._connections = connections
        self._get_alert_id = get_alert_id

    def run(self, requests: Iterable[Request]) -> Sent:
        """Send the requests in another process. Raise NoAnswer if it fails."""
        pending = list(requests)
        job = Job(self._host, self._port, self._connections, [request.raw for request in pending])
        try:
            done = subprocess.run(
                COMMAND,
                input=pickle.dumps(job),
                capture_output=True,
                cwd=ROOT,
                timeout=RUN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"the second loader was not done within {RUN_S:.0f} s") from None
        if done.returncode:
            raise NoAnswer(f"the second loader failed: {done.stderr.decode(errors='replace')[-500:]}")
        return self._build_sent(pending, pickle.loads(done.stdout))

    def _build_sent(self, requests: list[Request], found: JobResult) -> Sent:
        sent = Sent(unknown=found.repeated, started_at=found.started_at, seconds=found.seconds)
        refused: Counter[int] = Counter()
        for one in found.responses:
            entities = requests[one.number].entities
            if 200 <= one.status < 300:
                sent.latencies_ms.append(one.ms)
                sent.accepted.append(Accepted(self._get_alert_id(one.body), entities, one.at))
            else:
                refused[one.status] += len(entities)
        sent.refused = refused
        return sent


async def send_all(job: Job) -> JobResult:
    """Send all requests. Raise OSError if the server cannot be reached."""
    found = JobResult()
    pending = iter(enumerate(job.requests))
    found.started_at, started = time(), perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(job.connections):
            tasks.create_task(_serve(job, pending, found))
    found.seconds = perf_counter() - started
    return found


async def _serve(job: Job, pending: Iterator[tuple[int, bytes]], found: JobResult) -> None:
    """Take requests until none is left, each on this task's connection."""
    reader, writer = await asyncio.open_connection(job.host, job.port)
    for number, raw in pending:
        began = perf_counter()
        try:
            status, body, ends = await asyncio.wait_for(_exchange(reader, writer, raw), ANSWER_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            # Once more on a new connection: the server may have closed the idle one.
            found.repeated += 1
            reader, writer = await asyncio.open_connection(job.host, job.port)
            status, body, ends = await asyncio.wait_for(_exchange(reader, writer, raw), ANSWER_S)
        found.responses.append(Response(number, status, body, 1000 * (perf_counter() - began), time()))
        if ends:
            writer.close()
            reader, writer = await asyncio.open_connection(job.host, job.port)
    writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes
) -> tuple[int, bytes, bool]:
    """Return status and body of the answer to a request, and whether the server ends the connection."""
    writer.write(raw)
    await writer.drain()
    first, _, rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").partition("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest.splitlines())
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(first.split()[1]), body, headers.get("connection", "").lower() == "close"


def main() -> None:
    job: Job = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps(asyncio.run(send_all(job))))
