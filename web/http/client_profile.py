"""The two profiles of the interface: the specification, and the variant that the published clients read.

`Authorization: Bearer` selects the specification, `Token` the client profile (contract section 1.6). The
functions below are all differences of the profiles. No other module chooses by the scheme.
"""

from enum import Enum

from flask import has_request_context, request

from models.tables.teams import Team


class Profile(Enum):
    SPEC = "spec"
    CLIENT = "client"

    @property
    def has_paged_lists(self) -> bool:
        """Whether notes and alerts of an incident come as {count, next, previous, results}."""
        return self is Profile.CLIENT

    @property
    def shows_payload(self) -> bool:
        """Whether the answer to an event contains its payload."""
        return self is Profile.SPEC

    @property
    def allows_missing_fields(self) -> bool:
        """Whether a PUT may omit fields that the specification requires, and a create those that published
        clients omit."""
        return self is Profile.CLIENT

    @property
    def allows_grouping_before_policies(self) -> bool:
        """Whether a service may have content-based grouping before it has a grouping policy.

        Published clients create the service with it, and then its policies.
        """
        return self is Profile.CLIENT


def get_profile(authorization: str) -> Profile:
    word = authorization.strip().partition(" ")[0].lower()
    return Profile.CLIENT if word == "token" else Profile.SPEC


def current() -> Profile:
    """Return the profile of this request: SPEC if it has no Authorization header."""
    if not has_request_context():
        return Profile.SPEC
    return get_profile(request.headers.get("Authorization", ""))


def get_team_label(team: Team) -> int | str:
    """Return how a tag or priority names its team: by number, or by id in answers to a GET of a client."""
    is_read = has_request_context() and request.method == "GET"
    return str(team.unique_id) if is_read and current() is Profile.CLIENT else int(team.id)


def hides_priority() -> bool:
    """Return whether to omit the priority: the Go client expects team_priority_object to be a string
    and fails if it is an object."""
    agent = request.headers.get("User-Agent", "")
    return current() is Profile.CLIENT and agent.startswith("Go-http-client")
