"""The fixtures of the sources: tests/pipeline/sources/fixtures/KIND/NAME.json, and the examples of Tocsin.

A fixture has `body` (JSON) and maybe `headers`. `origin` begins with one of ORIGINS. A real body was sent by
the tool itself; then `origin` names the tool, its version, and what sent it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.domain.facts import SourceFacts
from pipeline.alert import ParsedAlert
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES

# What `tocsin send` sends, and the pages of docs/sources show: the fixture `fires` of most kinds. The others
# have it with their other fixtures.
EXAMPLES = Path(__file__).parents[2] / "tocsin" / "commands" / "alerts" / "examples"
FIXTURES = Path(__file__).parent.parent / "pipeline" / "sources" / "fixtures"
ORIGINS = ("real", "published sample", "documentation only")

# Sources that read what the user of an integration declared.
FACTS = {
    "json": SourceFacts(
        mapping={
            "message": "check.name",
            "entity_id": ["check.host", "check.id"],
            "alert_type": "check.status",
            "url": "link",
            "at": "when",
            "levels": {"bad": "error", "fine": "resolved"},
        }
    )
}


@dataclass(frozen=True)
class Fixture:
    kind: str
    name: str
    origin: str
    body: Any
    headers: Mapping[str, str]

    def request(self) -> RequestBody:
        return build_request(self.kind, self.body, self.headers)

    def parse(self) -> list[ParsedAlert]:
        return SOURCES[self.kind].parse(self.request())

    def parse_one(self) -> ParsedAlert:
        (alert,) = self.parse()
        return alert


def build_request(kind: str, body: object, headers: Mapping[str, str] | None = None) -> RequestBody:
    return RequestBody(json.dumps(body).encode(), headers, FACTS.get(kind, SourceFacts()))


def load(kind: str, name: str) -> Fixture:
    example, fixture = EXAMPLES / f"{kind}.json", FIXTURES / kind / f"{name}.json"
    path = example if name == "fires" and not fixture.exists() else fixture
    data = json.loads(path.read_text())
    return Fixture(kind, name, data["origin"], data["body"], data.get("headers", {}))


def list_fixtures() -> list[Fixture]:
    return [
        *(load(path.stem, "fires") for path in sorted(EXAMPLES.glob("*.json"))),
        *(load(path.parent.name, path.stem) for path in sorted(FIXTURES.glob("*/*.json"))),
    ]


def list_kinds(name: str) -> list[str]:
    """Return the kinds that have a fixture of this name."""
    return [fixture.kind for fixture in list_fixtures() if fixture.name == name]
