"""A channel that only tests have: it writes each message on a page of a notebook, in 160 characters."""

from models.domain.reasons import make_reason
from runtime.settings import Settings
from workers.delivery.transport.channel import Accepted, Channel, OutgoingMessage, Refused, TemporaryError

MAX_LENGTH = 160
# The written pages: the notebook, and the text.
PAGES: list[tuple[str, str]] = []


class Notebook:
    """The channel and its connection in one: a notebook needs neither settings nor a connection."""

    def find_missing_setting(self) -> str | None:
        return None

    def create_connection(self) -> "Notebook":
        return self

    def open(self) -> bool:
        return False

    def send(self, message: OutgoingMessage) -> Accepted:
        if message.to == "lost":
            raise Refused(make_reason("text", text="There is no such notebook."))
        if message.to == "full":
            raise TemporaryError(make_reason("text", text="The notebook is full."))
        buttons = "".join(f" [{action.name}]" for link in message.content.links for action in link.actions)
        PAGES.append((message.to, message.content.title[: MAX_LENGTH - len(buttons)] + buttons))
        return Accepted(make_reason("text", text=f"Written on page {len(PAGES)}."))

    def close(self) -> None:
        pass


def create_channel(settings: Settings) -> Channel:
    return Notebook()
