"""Servers on loopback that behave as Slack's Web API with Socket Mode, and as Telegram's Bot API."""

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.polling import wait_until
from tests.support.processes import find_free_port


class ChatServer:
    """A server in a thread. `calls`: the methods that were called, each with its arguments.

    `prepared` replaces the next prepared of a method: (status, headers, body).
    """

    def __init__(self) -> None:
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.prepared: dict[str, list[tuple[int, dict[str, str], object]]] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="chat server", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def list_calls(self, method: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == method]

    def wait_for(self, method: str, count: int = 1, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Wait until a method was called so often, and return the arguments of its calls."""
        wait_until(lambda: len(self.list_calls(method)) >= count, seconds)
        return self.list_calls(method)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def build_app(self) -> web.Application:
        raise NotImplementedError

    def take_answer(self, method: str) -> web.Response | None:
        prepared = self.prepared.get(method)
        if not prepared:
            return None
        status, headers, body = prepared.pop(0)
        return web.json_response(body, status=status, headers=headers)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self.build_app(), shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", self.port).start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()


class SlackServer(ChatServer):
    """Slack's Web API under /api/, addresses for prepared under /hooks/, and Socket Mode."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[str] = set()
        self.sockets: list[web.WebSocketResponse] = []
        # The prepared of the app in Socket Mode, by envelope_id.
        self.confirmed: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count(1)

    @property
    def api(self) -> str:
        return f"{self.url}/api"

    def build_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/{method}", self._call)
        app.router.add_post("/hooks/{path:.*}", self._hook)
        app.router.add_get("/socket", self._connect)
        return app

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.tokens.add(request.headers.get("Authorization", "").removeprefix("Bearer "))
        body = await request.read()
        arguments = json.loads(body) if request.content_type == "application/json" and body else {}
        self.calls.append((method, arguments))
        if (answer := self.take_answer(method)) is not None:
            return answer
        if method == "apps.connections.open":
            return web.json_response({"ok": True, "url": f"ws://127.0.0.1:{self.port}/socket?ticket=1"})
        if method == "chat.postMessage":
            ts = f"1700000000.{next(self._numbers):06}"
            return web.json_response({"ok": True, "channel": f"D{arguments['channel'][1:]}", "ts": ts})
        return web.json_response({"ok": True})

    async def _hook(self, request: web.Request) -> web.Response:
        self.calls.append(("hook", await request.json()))
        return web.Response(text="ok")

    async def _connect(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        await socket.send_json({"type": "hello", "num_connections": 1})
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                answer = json.loads(message.data)
                self.confirmed[answer["envelope_id"]] = answer
        self.sockets.remove(socket)
        return socket

    def send_envelope(self, number: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Send a callback over the connection, and return the app's answer."""
        wait_until(lambda: self.sockets)
        envelope = {"type": kind, "envelope_id": number, "payload": payload}
        self.run(self.sockets[-1].send_json(envelope))
        wait_until(lambda: number in self.confirmed)
        return self.confirmed[number]


class TelegramServer(ChatServer):
    """The Bot API of one bot. Updates are kept until the bot asks for later ones, as at Telegram."""

    def __init__(self, token: str = "123456:secret") -> None:
        super().__init__()
        self.token = token
        self.webhook: dict[str, Any] = {}
        # How long it waits for an update, in seconds. At Telegram, the argument `timeout` says it.
        self.patience_s = 1.1
        self._updates: list[dict[str, Any]] = []
        self._pushed = asyncio.Event()
        self._numbers = itertools.count(700_000_001)
        self._messages = itertools.count(1)

    def build_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/bot{token}/{method}", self._call)
        return app

    def push(self, **update: Any) -> int:
        """Add an update, and return its number."""
        number = next(self._numbers)
        self._updates.append({"update_id": number, **update})
        self._loop.call_soon_threadsafe(self._pushed.set)
        return number

    def press(self, user: int, data: str) -> int:
        chat = {"id": user, "type": "private"}
        query = {"id": f"q{user}{data}", "from": {"id": user, "is_bot": False}, "data": data,
                 "message": {"message_id": 1, "chat": chat}}  # fmt: skip
        return self.push(callback_query=query)

    def say(self, user: int, text: str, kind: str = "private") -> int:
        message = {"message_id": 1, "from": {"id": user}, "chat": {"id": user, "type": kind}, "text": text}
        return self.push(message=message)

    @property
    def pending(self) -> int:
        """The number of updates that the bot has not confirmed."""
        return len(self._updates)

    async def _call(self, request: web.Request) -> web.Response:
        method, arguments = request.match_info["method"], await request.json()
        if request.match_info["token"] != self.token:
            return web.json_response(
                {"ok": False, "error_code": 401, "description": "Unauthorized"}, status=401
            )
        self.calls.append((method, arguments))
        if (answer := self.take_answer(method)) is not None:
            return answer
        if method == "getUpdates":
            return await self._get_updates(arguments)
        if method in ("setWebhook", "deleteWebhook"):
            self.webhook = arguments if method == "setWebhook" else {}
            return web.json_response({"ok": True, "result": True})
        if method == "sendMessage":
            chat = {"id": int(arguments["chat_id"]), "type": "private"}
            return web.json_response(
                {"ok": True, "result": {"message_id": next(self._messages), "chat": chat}}
            )
        return web.json_response({"ok": True, "result": True})

    async def _get_updates(self, arguments: dict[str, Any]) -> web.Response:
        if self.webhook:
            text = "Conflict: can't use getUpdates method while webhook is active"
            return web.json_response({"ok": False, "error_code": 409, "description": text}, status=409)
        self._updates = [each for each in self._updates if each["update_id"] >= arguments.get("offset", 0)]
        if not self._updates:
            self._pushed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._pushed.wait(), self.patience_s)
        return web.json_response({"ok": True, "result": self._updates[: arguments.get("limit", 100)]})


@contextmanager
def start_slack() -> Iterator[SlackServer]:
    server = SlackServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def start_telegram() -> Iterator[TelegramServer]:
    server = TelegramServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
