"""Alice has a phone: SMS and calls go to a server with the interface of Twilio, which calls Tocsin back."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from models.domain.enums import ContactType, Urgency
from models.people import provisioning
from models.store.ids import make_uuid
from models.tables.users import ContactMethod, NotificationRule
from runtime.settings import load
from tests.support.delivery.twilio_server import NUMBER, SID, TOKEN, Created, TwilioServer, start_twilio
from tests.support.scenarios.delivery import alert
from tests.support.web.apps import get_app
from tests.support.world import World
from workers.delivery import deliver

PUBLIC_URL = "https://tocsin.example.org"
ALICES_NUMBER = "+46701234567"


@dataclass
class Phones:
    """The provider, the people, and the time of the next callback."""

    twilio: TwilioServer
    world: World
    now: datetime
    status: int = 0

    def add_contact(self, channel: ContactType, number: str = ALICES_NUMBER, user=None) -> ContactMethod:
        """Give a person, by default Alice, a verified contact as the only one in the notification rules."""
        user = user or self.world.alice
        contact = provisioning.create_contact(user, channel.name, channel, number, self.now, is_verified=True)
        NotificationRule.delete().where(NotificationRule.user == user).execute()
        for urgency in (Urgency.HIGH, Urgency.LOW):
            NotificationRule.create(
                unique_id=make_uuid(), user=user, contact=contact, urgency=urgency, creation_date=self.now
            )
        return contact

    def send(self, channel: ContactType) -> Created:
        """Send what is due, and return the newest SMS or call."""
        # Alerts are accepted one after another, within this second.
        self.after(seconds=1)
        deliver.send_due(channel, self.now)
        return self.twilio.created[-1]

    def notify(self, channel: ContactType, *entities: str) -> Created:
        """Open an incident for each of these entities and notify Alice of them in one message."""
        self.add_contact(channel)
        for entity in entities or ("db1",):
            alert(self.world, self.now, entity=entity, message=f"Disk full on {entity}")
        return self.send(channel)

    def after(self, **duration: float) -> None:
        self.now += timedelta(**duration)

    def reply(self, text: str, sender: str = ALICES_NUMBER, **more: str) -> str:
        return self.twilio.reply(f"{PUBLIC_URL}/callbacks/twilio/sms/reply/", sender, text, **more)


def build_settings(url: str, **more: str):
    return load(
        {
            "TOCSIN_PUBLIC_URL": PUBLIC_URL,
            "TOCSIN_TWILIO_URL": url,
            "TOCSIN_TWILIO_ACCOUNT_SID": SID,
            "TOCSIN_TWILIO_AUTH_TOKEN": TOKEN,
            "TOCSIN_TWILIO_SMS_FROM": NUMBER,
            "TOCSIN_TWILIO_CALL_FROM": NUMBER,
            # The provider's number for tests is American, and the people are in Sweden.
            "TOCSIN_PHONE_PREFIXES": "+46",
            **more,
        }
    )


@pytest.fixture
def phones(world: World, now: datetime, home, monkeypatch):
    with start_twilio() as twilio:
        settings = build_settings(twilio.url, TOCSIN_HOME=str(home))
        found = Phones(twilio, world, now)
        client = get_app(settings).test_client()

        def deliver_callback(url: str, body: bytes, headers: dict[str, str]) -> str:
            response = client.post(url.removeprefix(PUBLIC_URL), data=body, headers=headers)
            found.status = response.status_code
            return response.text

        twilio.deliver = deliver_callback
        for module in ("phone", "sms"):
            monkeypatch.setattr(f"web.callbacks.{module}.now", lambda: found.now)
        deliver.configure(settings)
        yield found
        deliver._runtimes.clear()
