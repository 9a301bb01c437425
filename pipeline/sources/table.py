"""One normalizer per monitoring tool, selected by the extension in the URL (contract X36 and section 6).

The body of a tool of the catalogue (models/domain/applications.py) without a normalizer, and a body that a
normalizer does not know, are read as alerts in an unknown form.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from models.domain.applications import KINDS
from models.domain.facts import SourceFacts
from models.domain.reasons import Reason
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources import (
    alertmanager,
    expired,
    heartbeat,
    httphealthcheck,
    mapping,
    opsgenie,
    pagerduty,
    prometheus,
    victorops,
)
from pipeline.sources.native import (
    cloudevents,
    datadog,
    dynatrace,
    grafana,
    librenms,
    mail,
    nagios,
    netdata,
    newrelic,
    oncall,
    proxmox,
    prtg,
    sensu,
    sentry,
    zabbix,
)
from pipeline.sources.native.cloud import azure, cloudwatch, guardduty, sns, stackdriver
from pipeline.sources.native.logs import elastalert, elastic, graylog, splunk, sumo_logic
from pipeline.sources.native.probes import (
    healthchecks,
    nodeping,
    pingdom,
    site24x7,
    status_cake,
    uptime_kuma,
    uptime_robot,
    uptrends,
)
from pipeline.sources.reading import generic
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.reading.cleaning import clean_name
from pipeline.sources.reading.fields import complete, read_unnamed
from pipeline.sources.reading.signatures import by_hmac

KIB = 1024
# For all headers of a receipt, in characters.
MAX_HEADER_BYTES = 4 * KIB
# The signature of Grafana, and its timestamp if the contact point names this header for it.
GRAFANA_HEADERS = ("x-grafana-alerting-signature", "x-grafana-alerting-timestamp")
# For tools that send forms.
FORM_HEADERS = ("content-type",)

Parse = Callable[[RequestBody], list[ParsedAlert]]


@dataclass(frozen=True, slots=True)
class Source:
    """`parse` reads a body into its alerts, in order, or raises BadBody. `max_bytes` limits the body.

    `count_alerts` returns only their number, or raises the same error. Where a body can have many alerts, it
    is much cheaper. `is_generic`: the body is read in the generic form.

    `headers` are the names of the headers that the source reads, in lower case; receipts keep only these.
    `uses_setup`: the source needs the facts of the integration.
    `verify` returns why a request is not from the tool, or None. It runs after the commit, before `parse`.
    `by_get`: its tool can have nothing but requests without a body, with the fields in the query.
    `takes_forms`: a form is read as the JSON object with its fields.
    `has_topics`: it checks that a message is from a topic of Amazon SNS; else it needs a secret.
    """

    extension: str
    parse: Parse
    max_bytes: int = 512 * KIB
    count_alerts: Callable[[RequestBody], int] | None = None
    is_generic: bool = False
    headers: tuple[str, ...] = ()
    uses_setup: bool = False
    verify: Callable[[RequestBody], Reason | None] | None = None
    has_topics: bool = False
    takes_forms: bool = False
    by_get: bool = False

    @property
    def has_secret(self) -> bool:
        """Return whether the tool signs its requests with a secret."""
        return self.verify is not None and not self.has_topics

    def is_checked(self, setup: SourceFacts) -> bool:
        """Return whether `verify` checks the requests to an integration with this set-up."""
        if self.verify is None:
            return False
        return bool(setup.topics) if self.has_topics else setup.secret is not None

    def pick_headers(self, find: Callable[[str], str | None]) -> dict[str, str] | None:
        """Return the headers that the source reads, at most MAX_HEADER_BYTES; None if there are none.

        `find` returns the value of a header by its name in lower case. Longer headers than the limit are
        left out, so that the alert is not lost because of them.
        """
        picked: dict[str, str] = {}
        size = 0
        for name in self.headers:
            value = find(name)
            if value is None:
                continue
            size += len(name) + len(value)
            if size > MAX_HEADER_BYTES:
                break
            picked[name] = clean_name(value)
        return picked or None

    def count(self, body: RequestBody) -> int:
        """Return the number of alerts in a body, or raise BadBody."""
        return len(self.parse(body)) if self.count_alerts is None else self.count_alerts(body)


# A line for each tool with a normalizer.
NORMALIZERS = (
    Source(generic.EXTENSION, generic.parse, is_generic=True, takes_forms=True, by_get=True),
    Source(prometheus.KIND, prometheus.parse, 8192 * KIB, prometheus.count),
    Source(heartbeat.EXTENSION, heartbeat.parse),
    Source(httphealthcheck.EXTENSION, httphealthcheck.parse),
    Source(mapping.KIND, mapping.parse, uses_setup=True, takes_forms=True, by_get=True),
    Source(
        grafana.KIND, grafana.parse, 2048 * KIB, headers=GRAFANA_HEADERS, uses_setup=True,
        verify=by_hmac(grafana.KIND, *GRAFANA_HEADERS),
    ),
    Source(uptime_kuma.KIND, uptime_kuma.parse, headers=FORM_HEADERS),
    Source(zabbix.KIND, zabbix.parse),
    *(Source(kind, nagios.build_parser(kind)) for kind in ("nagios", "icinga", "checkmk", "centreon")),
    Source(datadog.KIND, datadog.parse, headers=FORM_HEADERS),
    Source(
        sentry.KIND, sentry.parse, 2048 * KIB, headers=sentry.HEADERS, uses_setup=True,
        verify=by_hmac(sentry.KIND, sentry.SIGNATURE),
    ),
    Source(cloudwatch.KIND, cloudwatch.parse, uses_setup=True, verify=sns.verify, has_topics=True),
    Source(newrelic.KIND, newrelic.parse),
    Source(azure.KIND, azure.parse),
    Source(stackdriver.KIND, stackdriver.parse),
    Source(elastic.KIND, elastic.parse),
    Source(elastalert.KIND, elastalert.parse),
    Source(oncall.KIND, oncall.parse),
    Source(healthchecks.KIND, healthchecks.parse, headers=FORM_HEADERS),
    Source(cloudevents.KIND, cloudevents.parse, headers=cloudevents.HEADERS),
    Source(librenms.KIND, librenms.parse, headers=FORM_HEADERS),
    Source(splunk.KIND, splunk.parse),
    Source(dynatrace.KIND, dynatrace.parse),
    Source(uptime_robot.KIND, uptime_robot.parse, headers=FORM_HEADERS),
    Source(nodeping.KIND, nodeping.parse, headers=FORM_HEADERS),
    Source(sumo_logic.KIND, sumo_logic.parse),
    Source(sensu.KIND, sensu.parse),
    Source(guardduty.KIND, guardduty.parse, uses_setup=True, verify=sns.verify, has_topics=True),
    Source(uptrends.KIND, uptrends.parse),
    Source(pingdom.KIND, pingdom.parse),
    Source(status_cake.KIND, status_cake.parse, headers=FORM_HEADERS),
    Source(site24x7.KIND, site24x7.parse, headers=FORM_HEADERS),
    Source(prtg.KIND, prtg.parse, headers=FORM_HEADERS),
    Source(graylog.KIND, graylog.parse, 2048 * KIB),
    Source(proxmox.KIND, proxmox.parse),
    Source(netdata.KIND, netdata.parse),
    Source(mail.KIND, mail.parse),
)  # fmt: skip

# A line for each event API of another service. web/event_apis has their operations.
EVENT_APIS = (
    Source(pagerduty.EXTENSION, pagerduty.parse),
    Source(opsgenie.EXTENSION, opsgenie.parse),
    Source(victorops.EXTENSION, victorops.parse),
    Source(alertmanager.EXTENSION, alertmanager.parse, 8192 * KIB, alertmanager.count),
)


# These have a form of their own, or that which their integration declares: no tool sends another one.
OWN_FORMS = frozenset((generic.EXTENSION, heartbeat.EXTENSION, httphealthcheck.EXTENSION, mapping.KIND))


def _parse_unknown(kind: str, body: RequestBody) -> list[ParsedAlert]:
    return [replace(read_unnamed(generic.decode_object(body)), read_as_generic=kind)]


def _complete(source: Source) -> Source:
    """Return a source whose alerts all have a title and an entity_id, if it is that of a tool."""
    if source.extension in OWN_FORMS:
        return source

    def parse(body: RequestBody) -> list[ParsedAlert]:
        return [complete(source.extension, alert) for alert in source.parse(body)]

    return dataclasses.replace(source, parse=parse)


SOURCES: dict[str, Source] = {
    **{kind: Source(kind, partial(_parse_unknown, kind), is_generic=True) for kind in KINDS},
    **{source.extension: _complete(source) for source in NORMALIZERS},
    **{source.extension: source for source in EVENT_APIS},
}

# The sources of all stored receipts.
STORED_SOURCES: dict[str, Source] = {
    **SOURCES,
    expired.EXPIRED: Source(expired.EXPIRED, expired.parse),
    heartbeat.MISSING_PING: Source(heartbeat.MISSING_PING, heartbeat.parse_missing),
}
