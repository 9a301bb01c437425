"""Messages in the form of Amazon SNS without a signature, each with the address of another certificate.

The instance cannot reach Amazon. What is measured is that their requests and their dead letters delay nobody.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant

UNSIGNED_MESSAGES = "unsigned messages of Amazon SNS"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:siege"
CERTIFICATE_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-siege{number}.pem"
# 256 bytes, as a signature of Amazon.
SIGNATURE = "A" * 344


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Let the integration of CloudWatch take messages of a topic, and yield messages that only name it."""
    tenant.put(tenant.cloudwatch.source_path, {"topics": [TOPIC]})
    yield Requests(
        UNSIGNED_MESSAGES,
        tenant.base_url,
        lambda number: Request(tenant.cloudwatch.path, build_message(number)),
        threads=2,
        pause_s=0.2,
    )


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
