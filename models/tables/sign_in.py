"""How people sign in to the pages: sessions, passwords, links, passkeys and identities.

Secrets are stored as digests or hashes. A row of a session, a link or a step ends by its time; retention
deletes it later.
"""

import peewee

from models.store.fields import JsonField, ObjectTable, Table, UtcField
from models.tables.accounts import User


class Session(ObjectTable):
    """A browser in which a person is signed in. The cookie has the secret, `digest` its SHA-256.

    `ends_at` is its absolute end. It also ends some time after `last_seen_at`. `rights` are those that the
    person had when the secret was made: with others, the session gets a new secret. `proven_at` is when the
    person proved who it is, also to a provider; None: not known. A provider may sign in a stranger at an
    open browser.

    The secret before the last one, of `previous_digest`, is valid until `previous_until`. `form_token` is the
    token of the session's forms; None: it is derived from the secret, which is still the first one.
    """

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, unique=True)
    last_seen_at = UtcField()
    ends_at = UtcField()
    method = peewee.CharField(max_length=16)
    user_agent = peewee.CharField(max_length=120, default="")
    rights = peewee.CharField(max_length=40)
    proven_at = UtcField(null=True)
    previous_digest = peewee.CharField(max_length=64, null=True, index=True)
    previous_until = UtcField(null=True)
    form_token = peewee.CharField(max_length=64, null=True)


class Password(Table):
    """The password of a person, as an Argon2id hash."""

    user = peewee.ForeignKeyField(User, unique=True, on_delete="CASCADE")
    hash = peewee.CharField(max_length=255)
    changed_at = UtcField()


class SignInLink(ObjectTable):
    """A link that signs a person in once. models/links/signed_links.py signs its `unique_id`.

    `address`: a digest of the person's address; a changed address invalidates the link.
    """

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    address = peewee.CharField(max_length=64)
    ends_at = UtcField()


class Passkey(ObjectTable):
    """A public key of a person, whose private key stays in a device. Ids and keys are base64url."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    name = peewee.CharField(max_length=120)
    credential_id = peewee.CharField(max_length=1_400, unique=True)
    public_key = peewee.TextField()
    sign_count = peewee.BigIntegerField(default=0)
    last_used_at = UtcField(null=True)


class Identity(Table):
    """A person at an OpenID provider. A person with several accounts has one for each of them."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    issuer = peewee.CharField(max_length=255)
    subject = peewee.CharField(max_length=255)
    created_at = UtcField()

    class Meta:
        indexes = ((("issuer", "subject", "user"), True),)


class SignInStep(Table):
    """What the second step of a sign-in must match: the challenge of a passkey, or the state of a provider.

    The browser that began has the secret of `digest` in a cookie. A step is used once.
    """

    digest = peewee.CharField(max_length=64, unique=True)
    kind = peewee.CharField(max_length=16)
    values = JsonField(default=dict)
    ends_at = UtcField()


class SignInRate(Table):
    """The times of recent attempts, in epoch seconds, of one address or client. `key` is a digest of it."""

    key = peewee.CharField(max_length=64, unique=True)
    recent = JsonField(default=list)
    used_at = UtcField()


class UntrustedProxy(Table):
    """A network that sent X-Forwarded-For and is no trusted proxy. `tocsin check` names it."""

    address = peewee.CharField(max_length=64, unique=True)
    seen_at = UtcField()
