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
    def pages_sublists(self) -> bool:
        """Notes and alerts of an incident come as {count, next, previous, results}."""
        return self is Profile.CLIENT

    @property
    def shows_payload(self) -> bool:
        """The answer to an event carries its payload."""
        return self is Profile.SPEC

    @property
    def tells_fields(self) -> bool:
        """A refusal says in `errors` which fields it is about."""
        return self is Profile.CLIENT

    @property
    def lets_put_omit(self) -> bool:
        """A PUT may leave out fields that the specification requires."""
        return self is Profile.CLIENT


def profile_of(authorization: str) -> Profile:
    word = authorization.strip().partition(" ")[0].lower()
    return Profile.CLIENT if word == "token" else Profile.SPEC


def current() -> Profile:
    """The profile of this request; the specification's when it has no Authorization header."""
    if not has_request_context():
        return Profile.SPEC
    return profile_of(request.headers.get("Authorization", ""))


def team_label(team: Any) -> int | str:
    """How tags and priorities name their team: its number, but its id when a client reads."""
    reads = has_request_context() and request.method == "GET"
    return str(team.unique_id) if reads and current() is Profile.CLIENT else int(team.id)


def hides_priority_object() -> bool:
    """The Go client declares team_priority_object a string and fails on an object."""
    agent = request.headers.get("User-Agent", "")
    return current() is Profile.CLIENT and agent.startswith("Go-http-client")
