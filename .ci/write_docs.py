"""Write what documents take from the code: docs/settings.md, and the file lists of docs/architecture.md.

`make docs` runs it. With `--check` it changes nothing and fails if docs/settings.md is out of date.
"""

import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

PRODUCT = ("tocsin", "web", "workers", "pipeline", "schedules", "models", "runtime")
SETTINGS_PAGE = ROOT / "docs" / "settings.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
EVENT_OPERATION = "event operation"
BEGIN, END = "<!-- executed files: begin -->", "<!-- executed files: end -->"

SETTINGS_HEAD = """# Settings

Settings are environment variables, or stand in `tocsin.toml` in the data folder. The environment wins.
Servers and commands read both once, at their start. `tocsin settings` shows the values and where each is
from.

**The data folder** is found by `--home FOLDER`, then `TOCSIN_HOME`, then `./var`. It must belong to the user
that runs Tocsin. A command that finds no data there says so and creates nothing. `tocsin up`, `web`,
`worker`, `clock`, `migrate` and `init` create a folder that is missing. They do not use a folder that has
only files of others. With `TOCSIN_DATABASE_URL` in the environment, another user may run the other commands:
they use neither the folder nor the file in it.

**The file** has the names of the table in lower case and without `TOCSIN_`. Only its owner may read it (mode
0600), otherwise Tocsin does not start. `tocsin init` writes it.

```toml
public_url = "https://tocsin.example.org"
smtp_host = "mail.example.org"
smtp_port = 587
smtp_tls = "starttls"
smtp_plain_login = false
trusted_proxies = ["10.0.0.0/8"]
```

**An error stops the start** with one line that says what would be right. An unknown name is an error too, in
the environment (`TOCSIN_` names) and in the file. The values of secrets are never shown.

This page is made from the table in `runtime/settings.py` by `make docs`.

| variable | default | unit | meaning |
|---|---|---|---|
"""


def build_settings_page() -> str:
    """Return docs/settings.md: a row for each setting."""
    from runtime.settings import SETTINGS

    rows = (
        f"| `{each.variable}` | {f'`{each.default}`' if each.default else 'empty'} | {each.unit} |"
        f" {each.meaning.replace('|', chr(92) + '|')}{' (secret: never shown)' if each.secret else ''} |"
        for each in SETTINGS
    )
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


class FileTracer:
    """Records the files of the product whose functions run, in the order of their first call."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(f"{ROOT}/"):
            name = code.co_filename.removeprefix(f"{ROOT}/")
            if name.partition("/")[0] in PRODUCT:
                self.files[name] = None

    def record(self, work: Callable[[], object]) -> list[str]:
        self.files = {}
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        return list(self.files)


def list_executed_files() -> dict[str, list[str]]:
    """Run one plain alert, one due timer and one request in this process. Return the files of each."""
    from werkzeug.test import Client

    from models.domain.enums import ContactType
    from models.store.base import connection, open_store, store
    from models.store.migrate import migrate
    from models.tables.services import Service
    from models.tables.timers import Timer
    from runtime.settings import load
    from tests.support.mail_server import start_mailbox
    from tests.support.world import create_world
    from web.app import create_app
    from workers.alerts import process_lane
    from workers.delivery import deliver
    from workers.timers import fire

    tracer, found = FileTracer(), {}
    with tempfile.TemporaryDirectory() as folder, start_mailbox() as box:
        home = Path(folder)
        settings = load(
            {"TOCSIN_HOME": folder, "TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        )
        open_store("", home)
        migrate(home)
        deliver.configure(settings)
        # The whole WSGI application, as the server calls it.
        client = Client(create_app(settings))
        with connection():
            now: datetime = store().now()
            with store().write_transaction():
                world = create_world(now)
                Service.update(auto_resolve_timeout=3600).execute()
            key = world.integration.integration_key
            webhook = f"/integration/{world.account.account_identifier}/generic/{key}/"
            event_operation = f"/api/events/{key}/"

            def send(name: str, address: str = webhook) -> None:
                alert = {"message": "Disk full on db1", "alert_type": "critical", "entity_id": name}
                answer = client.post(address, json=alert)
                assert answer.status_code in (200, 201), answer.text

            def process() -> None:
                process_lane.run(world.service.id)
                deliver.send_due(ContactType.EMAIL, store().now())

            # What runs only once in a process is not part of an alert's path.
            send("first")
            send("second", event_operation)
            process()
            found["alert: accept"] = tracer.record(lambda: send("third"))
            found["alert: process and deliver"] = tracer.record(process)
            found[EVENT_OPERATION] = tracer.record(lambda: send("fourth", event_operation))
            process()
            later = store().now() + timedelta(days=1)
            Timer.update(due_at=later).where(Timer.done_at.is_null()).execute()
            fire.fire_due(later)
            send("fifth")
            process()
            Timer.update(due_at=later).where(Timer.done_at.is_null()).execute()
            found["timer"] = tracer.record(lambda: fire.fire_due(later))
            token = {"Authorization": f"Bearer {world.tokens['alice']}"}
            path = f"/api/account/teams/{world.team.unique_id}/services/"
            client.get(path, headers=token)
            found["request"] = tracer.record(lambda: client.get(path, headers=token))
    assert len(box.mails) >= 2
    return found


def build_file_lists(found: dict[str, list[str]]) -> str:
    """Return the Markdown that stands between the marks of docs/architecture.md."""
    more = len(set(found.pop(EVENT_OPERATION)) - set(found["alert: accept"]))
    alert = {name for title, files in found.items() if title.startswith("alert") for name in files}
    parts = [
        f"One alert runs code of {len(alert)} files from its request to its mail. Its address is that of an",
        f"integration; the event operation (`POST /api/events/KEY/`) runs {more} files more.\n",
    ]
    for title, files in found.items():
        parts.append(f"### {title} ({len(files)} files)\n")
        parts += [
            f"- {package}: {', '.join(f'`{name}`' for name in names)}"
            for package in PRODUCT
            if (names := [each for each in files if each.startswith(f"{package}/")])
        ]
        parts.append("")
    return "\n".join(parts)


def write_architecture() -> None:
    text = ARCHITECTURE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    ARCHITECTURE.write_text(f"{head}{BEGIN}\n\n{build_file_lists(list_executed_files())}{END}{tail}")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(SETTINGS_PAGE.read_text() != build_settings_page() and "docs/settings.md: run make docs")
    SETTINGS_PAGE.write_text(build_settings_page())
    write_architecture()
