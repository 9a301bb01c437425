"""Build the link that signs a person in who has no other way yet: at the first start, and by a command."""

from models.changes.record import Actor
from models.links import signed_links
from models.sign_in import audit, links
from models.store.store import store
from models.tables.accounts import User
from runtime.settings import Settings


def build_sign_in_url(settings: Settings, user: User, actor: Actor) -> str:
    """Return a link that signs this person in once, within an hour. Needs a write transaction."""
    now = store().now()
    link = links.create(user, now, links.TERMINAL_LIFE)
    audit.record(user, "link_created", now, actor=actor)
    return f"{settings.public_url}/sign-in/link/{signed_links.get_signer().sign_sign_in(link.unique_id)}"
