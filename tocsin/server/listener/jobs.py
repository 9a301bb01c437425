"""The jobs of the listener process, one line each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from models.store.ids import digest
from runtime.settings import Settings, list_values


class Session(Protocol):
    """A job that runs in threads of its own between start() and stop()."""

    def start(self) -> None:
        """Begin to listen. Errors of the provider are logged and tried again by the session itself."""
        ...

    def stop(self) -> None:
        """Stop to listen: no update is handled any more when this returns. Never raise."""
        ...


@dataclass(frozen=True, slots=True)
class ListenerJob:
    """A job with a file of tocsin/server/listener/, which has `create_session(settings) -> Session`.

    Settings need it if all `variables` are set. `get_account` returns what names the account at the provider:
    one process at a time listens for it.
    """

    name: str
    module: str
    variables: tuple[str, ...]
    get_account: Callable[[Settings], str]

    def is_needed(self, values: Mapping[str, object]) -> bool:
        """Return whether settings need the job; `values` as from list_values()."""
        return all(values.get(variable) for variable in self.variables)

    def get_lease(self, settings: Settings) -> str:
        """Return the name of the lease. It contains no secret."""
        return f"{self.name}:{digest(self.get_account(settings))[:16]}"

    def create_session(self, settings: Settings) -> Session:
        create: Callable[[Settings], Session] = import_module(
            f"tocsin.server.listener.{self.module}"
        ).create_session
        return create(settings)


JOBS = (
    ListenerJob(
        "slack",
        "slack_connection",
        ("TOCSIN_SLACK_APP_TOKEN", "TOCSIN_SLACK_BOT_TOKEN"),
        lambda settings: settings.slack_app_token,
    ),
    ListenerJob(
        "telegram",
        "telegram_updates",
        ("TOCSIN_TELEGRAM_TOKEN",),
        lambda settings: settings.telegram_token,
    ),
)


def list_needed(settings: Settings) -> list[ListenerJob]:
    """Return the jobs that these settings need. Without any, `tocsin up` starts no listener."""
    values = list_values(settings)
    return [job for job in JOBS if job.is_needed(values)]
