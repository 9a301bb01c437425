"""The attachments of an alert as the interface shows them: contract section 3.9."""

from collections.abc import Iterable, Mapping

from models.domain import identity

Attachment = Mapping[str, str]


def build_attachments(
    event_id: str, urls: Iterable[Attachment], images: Iterable[Attachment], notes: Iterable[Attachment]
) -> dict[str, list[dict[str, object]]]:
    """Return URLs, images and notes. The ID of each is derived from the ID of the alert and its position."""
    return {
        kind: [
            {**part, "unique_id": identity.make_attachment_id(event_id, kind, place)}
            for place, part in enumerate(parts)
        ]
        for kind, parts in (("urls", urls), ("images", images), ("notes", notes))
    }
