"""The senders count only requests with 2xx as accepted."""

import http.server
import threading
from collections.abc import Callable, Iterator

import pytest

from bench.compare.second_loader import SecondLoader
from bench.load import Loader, NoAnswer
from bench.traffic import Traffic

KEPT = (200, b'{"message":"success","trace_id":"t"}', {})
TRAFFIC = Traffic("run", alerts=20, entities=5)


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Serve these responses in turn, and repeat the last one; None closes the connection."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def serve(*responses) -> str:
        pending = list(responses)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                answer = pending.pop(0) if len(pending) > 1 else pending[0]
                if answer is None:
                    self.close_connection = True
                    return
                status, body, headers = answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Log nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/integration/acme/generic/key/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=[Loader, SecondLoader])
def sender(request):
    return request.param


def sent(url: str, sender=Loader, **options):
    return sender(url, 3, **options).run(TRAFFIC.requests(url))


def test_each_2xx_is_counted_as_accepted_with_its_trace_id_and_entities(served, sender):
    done = sent(served(KEPT), sender)

    assert len(done.accepted) == len(done.latencies_ms) == 20
    assert {one.alert_id for one in done.accepted} == {"t"}
    assert sorted({name for one in done.accepted for name in one.entities}) == [f"run-{n}" for n in range(5)]


def test_a_refusal_is_counted_by_its_status_and_not_as_accepted(served, sender):
    done = sent(served((503, b"{}", {}), (404, b"{}", {}), KEPT), sender)

    assert dict(done.refused) == {503: 1, 404: 1}
    assert len(done.accepted) == 18


def test_a_request_without_an_answer_is_unknown_and_sent_again(served, sender):
    done = sent(served(None, KEPT), sender)

    assert (done.unknown, len(done.accepted)) == (1, 20)


def test_a_connection_that_its_server_closes_after_the_answer_loses_nothing(served, sender):
    done = sent(served((200, KEPT[1], {"Connection": "close"})), sender)

    assert (done.unknown, len(done.accepted)) == (0, 20)


def test_it_gives_up_without_any_response(served, sender):
    with pytest.raises(NoAnswer):
        sent(served(None), sender)


def test_at_a_rate_requests_leave_when_they_are_due(served):
    done = sent(served(KEPT), rate=200)

    assert done.seconds >= 19 / 200
    assert len(done.accepted) == 20
