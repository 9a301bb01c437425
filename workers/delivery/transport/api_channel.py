"""A channel of one provider with an HTTP interface. It is its own connection: each request has a new one."""

from typing import Self

from runtime.settings import Settings, find_unset
from workers.delivery.transport.http import HttpClient


class ApiChannel:
    """What the channels of such providers share. `name` is that of the channel and of its provider."""

    name: str

    def __init__(self, settings: Settings, client: HttpClient | None = None) -> None:
        self._unset = find_unset(settings, self.name)
        self._client = client or HttpClient(self.name)

    def find_missing_setting(self) -> str | None:
        return f"set {self._unset}" if self._unset else None

    def create_connection(self) -> Self:
        return self

    def open(self) -> bool:
        return False

    def close(self) -> None:
        pass
