"""Bodies with many alerts, and pieces of a fixed size."""

import json
from typing import Any

import pytest

from tests.support.world import World
from workers.alerts import pieces, process_lane
from workers.alerts.batches import BatchSize
from workers.alerts.pieces import ParsedBody


def build_body(count: int, *, level: str = "critical", name: str = "host") -> bytes:
    """Return a body of Alertmanager with firing alerts, each of another entity."""
    alerts = [
        {
            "fingerprint": f"{name}{n}",
            "status": "firing",
            "labels": {"alertname": f"{name}{n}", "severity": level},
        }
        for n in range(count)
    ]
    return json.dumps({"alerts": alerts}).encode()


def set_piece_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let batches and pieces have this many alerts."""

    def build(lane: Any) -> ParsedBody:
        return ParsedBody(lane, size=BatchSize(target_s=1e9, limit=size))

    monkeypatch.setattr(process_lane, "_batch_size", BatchSize(target_s=1e9, limit=size))
    monkeypatch.setattr(pieces, "ParsedBody", build)


def run_piece(world: World) -> int:
    """Process one batch of the world's service."""
    return process_lane._process_batch(world.service.id, process_lane.get_segment("normalize"))
