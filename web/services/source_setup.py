"""What the source of an integration needs: secret, mapping, topics (under /api/tocsin/integrations/)."""

import secrets
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from marshmallow import fields, validate

from models.domain.enums import AlertType
from models.domain.facts import SourceFacts
from models.tables.services import Integration, SourceSetup
from pipeline.alert import ParsedAlert
from pipeline.sources import mapping, opsgenie
from pipeline.sources.native.cloud import sns
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.cleaning import TooDeep, clean_payload
from pipeline.sources.table import SOURCES, Source
from pipeline.stages.normalize import set_default_level
from web.http import serialization
from web.http.auth import now
from web.http.errors import BadRequest, reject
from web.http.fields import Boolean, List, Moment, Nested, RawData, RawText, Schema, Text, explain
from web.http.resource import config_transaction
from web.http.writing import Mode, NumberedAnswer, Part, Writing, begin_change, read_update, read_writing
from web.services.own_integration import access_integration

# The longest body of nearly all tools. A longer one is no better example, and costs more.
MAX_TRIAL_BYTES = 512 * 1024
MIN_SECRET, MAX_SECRET = 8, 256
MAX_TOPICS, MAX_TOPIC = 20, 350
NOT_A_TOPIC = "Must be the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:alarms."
# Fields that are stored as they are.
COLUMNS = ("secret", "mapping", "topics", "accepts_get", "has_alert_access")
LEVEL_NAMES = [level.name.lower() for level in AlertType]
# An alert without a level says that there is a problem.
DEFAULT_NAMES = ["critical", "error", "warning", "info"]


def _path(sentence: str) -> RawText:
    return RawText(limit=mapping.MAX_PATH, metadata=explain(sentence))


class PathOrPaths(fields.Field[str | list[str]]):
    """A path, or several."""

    default_error_messages = {
        "invalid": f"Must be a path, or 1 to {mapping.MAX_MESSAGE_PATHS} paths.",
        "too_long": f"A path has at most {mapping.MAX_PATH} characters.",
    }

    def __init__(self, *, metadata: Mapping[str, object]) -> None:
        path = {"type": "string", "maxLength": mapping.MAX_PATH}
        path_list = {"type": "array", "items": path, "minItems": 1, "maxItems": mapping.MAX_MESSAGE_PATHS}
        super().__init__(metadata={**metadata, "oneOf": [path, path_list]})

    def deserialize(
        self, value: object, attr: str | None = None, data: RawData = None, **kwargs: object
    ) -> Any:
        """Return the path; null is no path, as "" is."""
        return super().deserialize("" if value is None else value, attr, data, **kwargs)

    def _deserialize(
        self, value: object, attr: str | None, data: Mapping[str, object] | None, **kwargs: object
    ) -> str | list[str]:
        paths = value if isinstance(value, list) else [value]
        known = [path.replace("\x00", "") for path in paths if isinstance(path, str)]
        if len(known) != len(paths) or not 1 <= len(known) <= mapping.MAX_MESSAGE_PATHS:
            raise self.make_error("invalid")
        if any(len(path) > mapping.MAX_PATH for path in known):
            raise self.make_error("too_long")
        return known if isinstance(value, list) else known[0]


class MappingSchema(Schema):
    """Where the fields of an alert are in a body. A path is names with dots between them: `check.host`."""

    message = PathOrPaths(
        metadata=explain(
            "The path of the message, or a list of at most 5 paths, whose values are joined with `: `."
        )
    )
    summary = _path("The path of the summary.")
    alert_type = _path("The path of the level. Without one, every alert has the default level.")
    url = _path("The path of a link.")
    at = _path("The path of the time: RFC 3339, or seconds or milliseconds since 1970.")
    entity_id = List(
        RawText(limit=mapping.MAX_PATH),
        max_items=mapping.MAX_ENTITY_PATHS,
        metadata=explain("The paths whose values together name the problem."),
    )
    level = Text(
        allow_none=True,
        validate=validate.OneOf(DEFAULT_NAMES),
        metadata=explain(
            "The level of all alerts, except those whose word at `alert_type` means acknowledged or resolved."
        ),
    )
    defaults = fields.Dict(
        keys=fields.String(validate=validate.OneOf(mapping.WITH_DEFAULT)),
        values=fields.String(validate=validate.Length(min=1, max=mapping.MAX_DEFAULT)),
        metadata=explain("The values of fields whose paths have none: `message`, or a word of the level."),
    )
    levels = fields.Dict(
        keys=fields.String(validate=validate.Length(max=100)),
        values=fields.String(validate=validate.OneOf(LEVEL_NAMES)),
        validate=validate.Length(max=mapping.MAX_LEVELS),
        metadata=explain("What words of the level mean, besides the usual ones: `bad` is `critical`."),
    )


class SourceSetupSchema(Schema):
    """What the source of an integration needs besides the body."""

    kind = Text(dump_only=True, metadata=explain("The application as the webhook URL names it."))
    is_signed = Boolean(
        dump_only=True, metadata=explain("true: the tool can sign its requests with a secret.")
    )
    has_secret = Boolean(
        dump_only=True,
        metadata=explain("true: requests without a valid signature are refused and notify nobody."),
    )
    secret = Text(
        limit=MAX_SECRET,
        load_only=True,
        validate=validate.Length(min=MIN_SECRET, max=MAX_SECRET),
        metadata=explain("The secret that the tool gave you. No answer shows it."),
    )
    mapping = Nested(
        MappingSchema,
        allow_none=True,
        metadata=explain("Only for `json`: the paths of the fields; null: the body has the generic form."),
    )
    default_alert_type = Text(
        allow_none=True,
        validate=validate.OneOf(DEFAULT_NAMES),
        metadata=explain(
            "The level of alerts whose source sends none, or one that Tocsin does not know; null: `critical`,"
            " and `info` in the generic form."
        ),
    )
    topics = List(
        Text(limit=MAX_TOPIC, validate=validate.Regexp(f"^{sns.TOPIC}$", error=NOT_A_TOPIC)),
        max_items=MAX_TOPICS,
        allow_none=True,
        metadata=explain(
            "Only for `cloudwatch_v2` and `guardduty`: the ARNs of the topics of Amazon SNS whose messages it"
            " takes. Other requests are then refused; null: signatures are not checked."
        ),
    )
    accepts_get = Boolean(
        metadata=explain(
            "true: alerts also come by GET to the webhook URL, with their fields in the query. Only for"
            " applications whose tool can send nothing else, such as `generic` and `json`; default: false."
        )
    )
    has_alert_access = Boolean(
        metadata=explain(
            "Only for `opsgenie`: true: a sender may read and change the alerts of this integration with its"
            " key. A new integration has true."
        )
    )
    updated_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When it was changed last; null: never.")
    )


class NewSecretSchema(Schema):
    secret = Text(
        dump_only=True, metadata=explain("The new secret, to enter in the tool. Only this answer shows it.")
    )


class TrialSchema(Schema):
    """A body, to see which alerts it becomes. Nothing is stored."""

    body = fields.Dict(required=True, metadata=explain("A body as the tool sends it."))
    mapping = Nested(
        MappingSchema, allow_none=True, metadata=explain("A mapping to try; default: the stored one.")
    )


class TrialAlertSchema(Schema):
    """An alert that the body becomes, before rules."""

    message = Text(dump_only=True, metadata=explain("What happened, in one sentence."))
    summary = Text(dump_only=True)
    alert_type = Text(dump_only=True, metadata=explain("The name of the level."))
    entity_id = Text(
        dump_only=True,
        allow_none=True,
        metadata=explain("What the alert is about; null: the alert is alone."),
    )
    source_time = Moment(
        dump_only=True, allow_none=True, metadata=explain("The time of the source; null: it sent none.")
    )
    remarks = fields.List(
        Text(), dump_only=True, metadata=explain("What the trace of the alert will say about its form.")
    )


class TrialResultSchema(Schema):
    alerts = fields.List(
        fields.Nested(TrialAlertSchema),
        dump_only=True,
        metadata=explain("The alerts in the order of the body; at most 100."),
    )


SETUP = SourceSetupSchema()
SECRET = NewSecretSchema()
TRIAL = TrialSchema()
RESULT = TrialResultSchema()
# The alerts that a trial shows.
MAX_SHOWN = 100
# The objects in each other of a body that can be tried. Sources refuse less.
MAX_DEPTH = 500


def retrieve(source_id: str) -> dict[str, object]:
    """Get the settings of an integration's source. Its secret is not shown, only whether there is one."""
    return _show(access_integration(source_id))


def update(source_id: str) -> dict[str, object]:
    """Update the secret, mapping, topics or default level of an integration's source.

    What is left out stays.
    """
    integration = access_integration(source_id)
    return write(integration, serialization.read_as(SETUP, partial=True), read_update())


def write(integration: Integration, values: dict[str, object], writing: Writing) -> dict[str, object]:
    """Change these settings of an integration's source, and return all of them."""
    if "secret" in values:
        _require_signed(integration)
    if values.get("mapping") is not None and _get_kind(integration) != mapping.KIND:
        reject("mapping", f"Only integrations of the kind {mapping.KIND} have a mapping.")
    if values.get("topics"):
        if not _get_source(integration).has_topics:
            kinds = " and ".join(kind for kind, source in SOURCES.items() if source.has_topics)
            reject("topics", f"Only integrations of the kinds {kinds} have topics.")
        # The pattern allows the end of a line after the ARN.
        topics = [topic.strip() for topic in cast("list[str]", values["topics"])]
        values = {**values, "topics": topics}
    elif "topics" in values:
        values = {**values, "topics": None}
    if values.get("accepts_get") and not _get_source(integration).by_get:
        reject("accepts_get", f"{_get_kind(integration)} sends its alerts with POST.")
    if values.get("has_alert_access") and _get_kind(integration) != opsgenie.EXTENSION:
        reject("has_alert_access", f"Only integrations of the kind {opsgenie.EXTENSION} have it.")
    with config_transaction():
        _save(integration, _read_columns(values), writing)
    return _show(integration)


def _read_columns(values: Mapping[str, object]) -> dict[str, object]:
    columns = {name: values[name] for name in COLUMNS if name in values}
    if "default_alert_type" in values:
        name = values["default_alert_type"]
        columns["default_alert_type"] = AlertType[name.upper()] if isinstance(name, str) else None
    return columns


def renew_secret(source_id: str) -> dict[str, object]:
    """Create a new secret for the tool's signatures. The one before it is no longer valid."""
    integration = access_integration(source_id)
    _require_signed(integration)
    secret = secrets.token_urlsafe(32)
    write_secret(integration, secret, read_writing(Mode.PATCH))
    return NumberedAnswer(integration.number, {"secret": secret})


def delete_secret(source_id: str) -> None:
    """Delete the secret of an integration's source. Signatures are then not checked."""
    write_secret(access_integration(source_id), None, read_writing(Mode.DELETE))


def write_secret(integration: Integration, secret: str | None, writing: Writing) -> None:
    """Replace the secret of an integration's source; None: delete it."""
    with config_transaction():
        _save(integration, {"secret": secret}, writing)


def try_body(source_id: str) -> dict[str, object]:
    """Try which alerts a body becomes. A mapping can be tried with it. Nothing is stored."""
    integration = access_integration(source_id)
    draft, row = serialization.read_as(TRIAL), _load(integration)
    declared = draft.get("mapping", row.mapping)
    source = _get_source(integration)
    try:
        alerts = source.parse(RequestBody(_encode(draft["body"]), None, SourceFacts(None, declared)))
    except BadBody as error:
        raise BadRequest(error.errors) from None
    return {
        "alerts": [
            _show_trial(alert if row.default_level is None else set_default_level(alert, row.default_level))
            for alert in alerts[:MAX_SHOWN]
        ]
    }


def _show_trial(alert: ParsedAlert) -> dict[str, object]:
    return {
        "message": alert.message,
        "summary": alert.summary,
        "alert_type": alert.alert_type.name.lower(),
        "entity_id": alert.entity_id,
        "source_time": alert.source_at,
        "remarks": [str(reason) for reason in alert.remarks],
    }


def _encode(body: object) -> bytes:
    """Return the body of a trial as JSON. Raises BadBody."""
    try:
        return msgspec.json.encode(clean_payload(body, MAX_DEPTH))
    except (TooDeep, RecursionError):
        raise BadBody("body", "is nested too deeply") from None


def _get_kind(integration: Integration) -> str:
    return integration.application_reference.extension


def _get_source(integration: Integration) -> Source:
    source = SOURCES.get(_get_kind(integration))
    if source is None:
        reject("integration", "The application of this integration takes no alerts.")
    return source


def _require_signed(integration: Integration) -> None:
    if not _get_source(integration).has_secret:
        reject("secret", f"{_get_kind(integration)} does not sign its requests.")


def _load(integration: Integration) -> SourceSetup:
    return SourceSetup.get_or_none(SourceSetup.integration == integration) or SourceSetup()


def _save(integration: Integration, values: dict[str, object], writing: Writing) -> None:
    found = begin_change(integration, writing, PART)
    integration.number = found.number
    changed = {**values, "updated_at": now()}
    SourceSetup.insert(integration=integration, **changed).on_conflict(
        conflict_target=[SourceSetup.integration], update=changed
    ).execute()


def _show(integration: Integration) -> dict[str, object]:
    row, kind = _load(integration), _get_kind(integration)
    source = SOURCES.get(kind)
    values = {
        "kind": kind,
        "is_signed": source is not None and source.has_secret,
        "has_secret": bool(row.secret),
        "mapping": row.mapping,
        "default_alert_type": None if row.default_level is None else row.default_level.name.lower(),
        "topics": row.topics,
        "accepts_get": bool(row.accepts_get),
        "has_alert_access": row.has_alert_access,
        "updated_at": row.updated_at,
    }
    return NumberedAnswer(integration.number, values)


def _describe(integration: Integration) -> dict[str, object]:
    row = _load(integration)
    level = None if row.default_level is None else row.default_level.name.lower()
    columns = {name: getattr(row, name) for name in COLUMNS}
    return {**columns, "has_alert_access": bool(row.has_alert_access), "default_alert_type": level}


def _show_dumped(integration: Integration) -> object:
    return SETUP.dump(_show(integration))


PART = Part("integration", "source", _describe, _show_dumped, ("secret",), write=write)
