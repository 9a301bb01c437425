"""Messages in the form of Amazon SNS without a signature, each with the address of another certificate.

What is measured is that their requests and their dead letters delay nobody.
"""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant
from models.domain.enums import WorkState
from models.store.store import connection, store
from models.tables.events import Receipt

UNSIGNED_MESSAGES = "unsigned messages of Amazon SNS"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:siege"
CERTIFICATE_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-siege{number}.pem"
# 256 bytes, as a signature of Amazon.
SIGNATURE = "A" * 344


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Let the integration of CloudWatch take messages of a topic, and yield messages that only name it."""
    tenant.put(tenant.cloudwatch.source_path, {"topics": [TOPIC]})
    yield UnsignedMessages(
        UNSIGNED_MESSAGES,
        tenant.base_url,
        lambda number: Request(tenant.cloudwatch.path, build_message(number)),
        threads=2,
        pause_s=0.2,
    )


class UnsignedMessages(Requests):
    """Requests whose receipts end with the attack. They would wait for half an hour."""

    def run(self, stopping: threading.Event) -> None:
        super().run(stopping)
        pending = (Receipt.state == WorkState.PENDING) & (Receipt.source == "cloudwatch_v2")
        with connection(), store().write_transaction():
            Receipt.delete().where(pending).execute()


def build_message(number: int) -> bytes:
    message = {
        "Type": "Notification",
        "MessageId": f"siege-{number}",
        "TopicArn": TOPIC,
        "Message": json.dumps({"AlarmName": "siege", "NewStateValue": "ALARM"}),
        "Timestamp": datetime.now(UTC).isoformat(),
        "SignatureVersion": "1",
        "Signature": SIGNATURE,
        "SigningCertURL": CERTIFICATE_URL.format(number=number),
    }
    return json.dumps(message).encode()
