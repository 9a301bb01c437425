"""Find the incidents of the alerts that a body repeats. It is read again, as no such alert is stored."""

from collections.abc import Sequence

import peewee

from models.load.source_setups import load_source_facts
from models.reports import repeated_alerts
from models.reports.repeated_alerts import RepeatedIncident
from models.tables.events import Receipt
from pipeline.sources.reading.body import BadBody
from pipeline.stages.normalize import build_body, list_entity_ids

# To read a larger body takes too long for a page. Sources that send alerts again send small ones.
MAX_BYTES = 256 * 1024


def find_repeated(
    receipt: Receipt, services: peewee.ModelSelect | None = None
) -> Sequence[RepeatedIncident] | None:
    """Return the incidents of the alerts that a body repeats; None: it has alerts of its own, or none yet.

    `services` is as in alert_trace.build_trace().
    """
    if not repeated_alerts.is_repetition(receipt):
        return None
    found = repeated_alerts.load_body(receipt, MAX_BYTES)
    if found is None:
        return ()
    body = build_body(found.source, found.raw, found.headers, lambda: load_source_facts(found.integration))
    try:
        entity_ids = list_entity_ids(found.source, body)
    except BadBody:
        return ()
    return repeated_alerts.find_incidents(receipt, entity_ids, services)
