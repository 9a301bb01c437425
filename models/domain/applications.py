"""The catalogue of applications for integrations (contract section 3.6).

`extension` is the part of the webhook URL that selects the normalizer (pipeline/sources). Only
applications that have a normalizer are listed.
"""

from dataclasses import dataclass

from models.domain.enums import IntegrationType


@dataclass(frozen=True, slots=True)
class Application:
    unique_id: str
    name: str
    extension: str
    summary: str
    categories: str
    application_type: IntegrationType = IntegrationType.ALERT


APPLICATIONS: dict[str, Application] = {
    application.unique_id: application
    for application in (
        Application(
            "27c9800c-2856-490d-8119-790be1308dd4", "API", "generic",
            "Send alerts to the events API from scripts and programs.", "API",
        ),
        Application(
            "0d2b8f3e-6a5c-4c7e-9f61-2f0f7c1f5a10", "Generic Integration", "generic",
            "Any tool that can post JSON with a message and an alert type.", "API",
        ),
        Application(
            "5a4b6c1d-93b1-4f0e-8f57-71e0b1c2d3e4", "Prometheus", "prometheus",
            "Alerts from Prometheus, by the webhook receiver of Alertmanager.", "Monitoring",
        ),
        Application(
            "b7e0c5d2-41f9-4a36-8c0e-6d2a9f3b7e18", "Heartbeat", "heartbeat",
            "Jobs that send a ping after each run. A missing ping opens an incident, the next resolves it.",
            "Monitoring",
        ),
    )
}  # fmt: skip

GENERIC = "0d2b8f3e-6a5c-4c7e-9f61-2f0f7c1f5a10"
HEARTBEAT = "b7e0c5d2-41f9-4a36-8c0e-6d2a9f3b7e18"
PROMETHEUS = "5a4b6c1d-93b1-4f0e-8f57-71e0b1c2d3e4"
