"""Whether the reader of a link to an incident still has a right to it.

A member of the account has it by a permission in the incident's team. Policies, schedules and SLAs can also
name people who have no permission there. Such a person is notified, so the link works as long as the incident
or its configuration still names the person.
"""

from datetime import datetime

from models.links.named_people import is_named
from models.tables.accounts import User
from models.tables.incidents import Incident
from web.http import access
from web.http.auth import Viewer


def may_use(user: User, incident: Incident, permission: str, now: datetime) -> bool:
    """Return whether the user has this permission for the incident, or is named by it."""
    viewer = Viewer(user, incident.account, permission)
    return bool(access.may(viewer, permission, incident.team_id)) or is_named(user, incident, now)
