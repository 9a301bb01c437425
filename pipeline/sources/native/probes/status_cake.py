"""Webhooks of StatusCake, which are forms.

statuscake.com, "How to use the web hook URL". The test names the problem. Without its ID, the name and the
address do. The form has no time.
"""

from models.domain.enums import AlertType
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.fields import Fields, as_parser, build_alert, join_entity, read_level

KIND = "statuscake"

STATUSES = {
    "down": AlertType.CRITICAL,
    "0": AlertType.CRITICAL,
    "up": AlertType.RESOLVED,
    "1": AlertType.RESOLVED,
}


def _is_known(data: Fields) -> bool:
    return data.has("Status") and data.has("Name", "URL", "TestID")


def _read(data: Fields) -> list[ParsedAlert]:
    name, status, code = data.text("Name", "URL", "IP"), data.text("Status"), data.text("StatusCode")
    title = f"{name} is {status.upper()}" if status else name
    test = data.text("TestID")
    return [
        build_alert(
            data.value,
            read_level(status, STATUSES),
            message=f"{title}: status code {code}" if code and code != "0" else title,
            summary=data.text("Tags"),
            entity=join_entity(*(("test", test) if test else (data.text("Name"), data.text("URL", "IP")))),
            links=[("Monitored", data.text("URL"))],
        )
    ]


parse = as_parser(KIND, _is_known, _read)
