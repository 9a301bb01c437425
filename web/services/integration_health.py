"""How the source of an integration is, and which sources went silent (under /api/tocsin/integrations/)."""

from collections.abc import Mapping

from marshmallow import fields

from models.domain.enums import AlertType
from models.domain.source_silence import Silence
from models.reports.integrations import source_health
from models.reports.integrations.source_health import Count, LastAlert, SilentSource
from models.store.store import store
from pipeline.sources.own import OWN_SOURCES
from web.http import access
from web.http.auth import viewer
from web.http.concurrency_limit import ConcurrencyLimit
from web.http.fields import Boolean, List, Moment, Nested, Number, Schema, Text, explain
from web.services.own_integration import access_integration


class LastAlertSchema(Schema):
    """The newest stored alert of an integration."""

    trace_id = Text(dump_only=True)
    received_at = Moment(dump_only=True, metadata=explain("When Tocsin accepted the alert."))
    alert_type = Text(dump_only=True, metadata=explain("The name of the level."))
    outcome = Text(
        dump_only=True, allow_none=True, metadata=explain("What the last stage decided; null: none has yet.")
    )


class RateSchema(Schema):
    """What came in a period that ends now."""

    period = Text(dump_only=True, metadata=explain("hour, day or week."))
    requests = Number(dump_only=True, metadata=explain("Requests with the key of the integration."))
    alerts = Number(
        dump_only=True,
        metadata=explain("Stored alerts, also those that a router sent to the integration."),
    )
    is_complete = Boolean(
        dump_only=True, metadata=explain("false: there are more; Tocsin counts 10,000 of each.")
    )


class CaseSchema(Schema):
    """The newest case of a count."""

    trace_id = Text(dump_only=True)
    received_at = Moment(dump_only=True, metadata=explain("When Tocsin accepted the request."))
    reason = Text(dump_only=True, allow_none=True, metadata=explain("Why it is counted, as a sentence."))


class CountSchema(Schema):
    """How many times something happened."""

    count = Number(dump_only=True)
    is_complete = Boolean(dump_only=True, metadata=explain("false: there may be more."))
    newest = Nested(
        CaseSchema, dump_only=True, allow_none=True, metadata=explain("The newest case; null: there is none.")
    )


class UnheardSchema(CountSchema):
    """The alerts of the last day, if all of them reached nobody."""

    advice = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("What to change, and where; null: the reason of the newest alert says it."),
    )


class SilenceSchema(Schema):
    """A time without alerts that is unusual for this integration."""

    last_at = Moment(dump_only=True, metadata=explain("When the last alert was accepted."))
    usual_gap = Number(
        dump_only=True,
        metadata=explain(
            "Seconds: the longest time without alerts in the eight days before the last one. It is measured"
            " up to three hours too long."
        ),
    )


class IntegrationHealthSchema(Schema):
    """How the source of an integration is, by the stored alerts."""

    last_request_at = Moment(
        dump_only=True,
        allow_none=True,
        metadata=explain("When the newest request with the key was accepted; null: none is stored."),
    )
    last_alert = Nested(
        LastAlertSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("The newest alert; null: none is stored."),
    )
    rates = List(
        fields.Nested(RateSchema),
        dump_only=True,
        metadata=explain("What came in the last hour, day and week."),
    )
    dead_letters = Nested(
        CountSchema,
        dump_only=True,
        metadata=explain("Bodies and alerts that Tocsin could not process, and that nobody has dropped."),
    )
    unread = Nested(
        CountSchema,
        dump_only=True,
        metadata=explain("Alerts that did not have the form of the tool, of the newest 1,000."),
    )
    refused = Nested(
        CountSchema,
        dump_only=True,
        metadata=explain("Requests that were refused by their signature, of the newest 1,000 alerts."),
    )
    unheard = Nested(
        UnheardSchema,
        dump_only=True,
        metadata=explain("The alerts of the last day, if all of them notified nobody; else 0."),
    )
    silence = Nested(
        SilenceSchema,
        dump_only=True,
        allow_none=True,
        metadata=explain("Since when there are no alerts; null: the silence is not unusual."),
    )


class SilentOwnerSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class SilentIntegrationSchema(SilenceSchema):
    """An integration that used to get alerts regularly, and gets none."""

    integration = fields.Nested(SilentOwnerSchema, dump_only=True, metadata=explain("The integration."))
    service = fields.Nested(SilentOwnerSchema, dump_only=True, metadata=explain("Its service."))
    team = fields.Nested(SilentOwnerSchema, dump_only=True, metadata=explain("The team of the service."))


class SilentIntegrationsSchema(Schema):
    """The integrations that went silent."""

    results = List(
        fields.Nested(SilentIntegrationSchema),
        dump_only=True,
        metadata=explain("The latest silence first."),
    )
    is_complete = Boolean(
        dump_only=True,
        metadata=explain("false: only the 200 integrations whose last alert is the newest were examined."),
    )


# A question about many integrations takes long: one account must not occupy all threads with it.
CONCURRENCY = ConcurrencyLimit(2, ends_with_client=False)
HEALTH = IntegrationHealthSchema()
SILENT = SilentIntegrationsSchema()


def retrieve(source_id: str) -> dict[str, object]:
    """Get the health of the source of an integration."""
    found = source_health.load_health(access_integration(source_id), OWN_SOURCES, store().now())
    return {
        "last_request_at": found.last_request_at,
        "last_alert": _show_alert(found.last_alert),
        "rates": found.rates,
        "dead_letters": _show_count(found.dead_letters),
        "unread": _show_count(found.unread),
        "refused": _show_count(found.refused),
        "unheard": {
            **_show_count(found.unheard.count),
            "advice": found.unheard.advice and str(found.unheard.advice),
        },
        "silence": found.silence and _show_silence(found.silence),
    }


def list_silent() -> dict[str, object]:
    """List the integrations that used to get alerts regularly, and get none. The latest silence is first."""
    with CONCURRENCY.acquire(viewer().account):
        found = source_health.list_silent(access.select_permitted_teams(viewer()), OWN_SOURCES, store().now())
    return {"results": [_show_source(each) for each in found.sources], "is_complete": found.is_complete}


def _show_alert(alert: LastAlert | None) -> Mapping[str, object] | None:
    if alert is None:
        return None
    return {
        "trace_id": alert.trace_id,
        "received_at": alert.received_at,
        "alert_type": AlertType(alert.alert_type).name.lower(),
        "outcome": alert.reason and str(alert.reason),
    }


def _show_count(found: Count) -> Mapping[str, object]:
    newest = found.newest and {
        "trace_id": found.newest.trace_id,
        "received_at": found.newest.received_at,
        "reason": found.newest.reason and str(found.newest.reason),
    }
    return {"count": found.count, "is_complete": found.is_complete, "newest": newest}


def _show_silence(silence: Silence) -> dict[str, object]:
    return {"last_at": silence.last_at, "usual_gap": int(silence.usual_gap.total_seconds())}


def _show_source(found: SilentSource) -> Mapping[str, object]:
    integration = found.integration
    service = integration.service
    owners = {"integration": integration, "service": service, "team": service.team}
    return {**owners, **_show_silence(found.silence)}
