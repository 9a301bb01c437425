"""The two shapes of four answers: exactly the specification, or what the published clients read.

`Authorization: Bearer` gets the specification, `Token` the clients' shapes; the word alone decides
(contract section 1.6). Nothing else in the house looks at it.
"""

from enum import Enum
from typing import Any

from flask import has_request_context, request


class Profile(Enum):
    SPEC = "spec"
    CLIENT = "client"

    @property
    def has_paged_lists(self) -> bool:
        """Notes and alerts of an incident come as {count, next, previous, results}."""
        return self is Profile.CLIENT

    @property
    def shows_payload(self) -> bool:
        """The answer to an event carries its payload."""
        return self is Profile.SPEC

    @property
    def shows_error_fields(self) -> bool:
        """A refusal says in `errors` which fields it is about."""
        return self is Profile.CLIENT

    @property
    def allows_partial_put(self) -> bool:
        """A PUT may leave out fields that the specification requires."""
        return self is Profile.CLIENT


def get_profile(authorization: str) -> Profile:
    word = authorization.strip().partition(" ")[0].lower()
    return Profile.CLIENT if word == "token" else Profile.SPEC


def current() -> Profile:
    """The profile of this request; the specification's when it has no Authorization header."""
    if not has_request_context():
        return Profile.SPEC
    return get_profile(request.headers.get("Authorization", ""))


def get_team_label(team: Any) -> int | str:
    """How tags and priorities name their team: its number, but its id when a client reads."""
    is_read = has_request_context() and request.method == "GET"
    return str(team.unique_id) if is_read and current() is Profile.CLIENT else int(team.id)


def hides_priority() -> bool:
    """The Go client declares team_priority_object a string and fails on an object."""
    agent = request.headers.get("User-Agent", "")
    return current() is Profile.CLIENT and agent.startswith("Go-http-client")
