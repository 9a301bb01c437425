"""A channel whose addresses are URLs of users: each message is one request that contains JSON."""

from collections.abc import Callable
from urllib.parse import urlsplit

from runtime.settings import Settings
from workers.delivery.transport.channel import Accepted, OutgoingMessage
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient


def get_host(url: str) -> str:
    """Return the host of a URL, with its port; the URL itself if it cannot be read."""
    try:
        return urlsplit(url).netloc.lower() or url
    except ValueError:
        return url


class UserUrlChannel:
    """A channel of this process. `build` returns the JSON of a message, `provider` names the channel.

    `complete_url` returns the URL to request for the URL of a contact.
    """

    def __init__(
        self,
        settings: Settings,
        provider: str,
        build: Callable[[OutgoingMessage], dict[str, object]],
        complete_url: Callable[[str], str] = str,
    ) -> None:
        self._client = UserUrlClient(provider, UserHosts(settings.webhook_networks))
        self._build = build
        self._complete_url = complete_url

    def find_missing_setting(self) -> str | None:
        return None

    def get_host(self, to: str) -> str:
        return get_host(to)

    def format_example(self, message: OutgoingMessage) -> object:
        """Return what send() would submit, for docs/messages.md."""
        return self._build(message)

    def create_connection(self) -> "UserUrlConnection":
        return UserUrlConnection(self._client, self._build, self._complete_url)


class UserUrlConnection:
    """Sends messages; each request has a connection of its own."""

    def __init__(
        self,
        client: UserUrlClient,
        build: Callable[[OutgoingMessage], dict[str, object]],
        complete_url: Callable[[str], str] = str,
    ) -> None:
        self._client = client
        self._build = build
        self._complete_url = complete_url

    def open(self) -> bool:
        return False

    def send(self, message: OutgoingMessage) -> Accepted:
        reason = self._client.submit(self._complete_url(message.to), self._build(message), message.at)
        return Accepted(reason, self._client.provider)

    def close(self) -> None:
        pass
