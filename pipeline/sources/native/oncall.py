"""The formatted webhook of Grafana OnCall, so that its senders need only another URL.

An alert without alert_uid is alone: in OnCall, all of them were one group.
"""

from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.cleaning import clean_url
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, read_optional_level

KIND = "oncall"


def _is_known(data: Fields) -> bool:
    return data.has("alert_uid", "link_to_upstream_details") or (data.has("title") and data.has("state"))


def _read(data: Fields) -> list[ParsedAlert]:
    state = data.text("severity") if data.text("state").lower() == "alerting" else data.text("state")
    alert = build_alert(
        data.value,
        read_optional_level(state),
        message=data.text("title"),
        summary=data.text("message"),
        entity=data.text("alert_uid"),
        links=[("Details", data.text("link_to_upstream_details"))],
    )
    image = clean_url(data.text("image_url"))
    if not image:
        return [alert]
    return [replace(alert, images=({"image_src": image, "image_url": image, "image_text": ""},))]


parse = as_parser(KIND, _is_known, _read)
