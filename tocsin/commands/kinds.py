"""The monitoring tools, as `send`, `simulate` and `integration add` take them: the kinds of the catalogue."""

from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from models.domain.applications import APPLICATIONS, HEARTBEAT, KINDS
from models.domain.enums import IntegrationType

# Those that send alerts, by kind.
TOOLS = {
    kind: application
    for kind, application in KINDS.items()
    if application.application_type is IntegrationType.ALERT
}
# Those that send to operations of their own, not to a webhook URL: the path that the sender is given.
EVENT_APIS = {
    "pagerduty": "/v2/enqueue",
    "opsgenie": "/",
    "victorops": "/integrations/generic/20131114/alert/{key}/",
    "alertmanager": "/integration/alertmanager/{key}/api/v2/alerts",
}
HEARTBEAT_KIND = APPLICATIONS[HEARTBEAT].extension


class KindType(click.ParamType):
    """The kind of an application. There are too many for a list in a help text."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        kind = value.strip().lower()
        if kind not in TOOLS:
            similar = get_close_matches(kind, TOOLS)
            hint = (
                f"did you mean {', '.join(similar)}?" if similar else f"there are: {', '.join(sorted(TOOLS))}"
            )
            self.fail(f"there is no tool {value}; {hint}")
        return kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [
            CompletionItem(kind, help=application.name)
            for kind, application in sorted(TOOLS.items())
            if kind.startswith(incomplete)
        ]
