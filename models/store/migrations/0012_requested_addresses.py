"""Store the address of a requested test message, and when a rate was counted last.

Contacts with the person's own verified address become verified for themselves. Processes of the previous
version may still run: the new columns may be NULL.
"""

from datetime import UTC, datetime

import peewee

from models.store.base import UtcField

# In this order, a request that counts a rate and then stores a message locks the tables too.
COLUMNS = """
ALTER TABLE "rate_limit" ADD COLUMN "used_at" TIMESTAMPTZ;
ALTER TABLE "message" ADD COLUMN "requested_address" VARCHAR(320)
"""

# 1: e-mail.
OWN_ADDRESSES = """
UPDATE "contact_method" SET "verified_value" = "value"
WHERE "contact_type" = 1 AND EXISTS (
  SELECT 1 FROM "user" WHERE "user"."id" = "contact_method"."user_id"
  AND LOWER("user"."email") = LOWER("contact_method"."value")
  AND LOWER("user"."verified_email") = LOWER("user"."email")
)
"""


class RateLimit(peewee.Model):
    used_at = UtcField(null=True)

    class Meta:
        table_name = "rate_limit"


def up(migrator, db):
    for statement in COLUMNS.split(";"):
        db.execute_sql(statement)
    with db.bind_ctx([RateLimit]):
        RateLimit.update(used_at=datetime.now(UTC)).execute()
    db.execute_sql(OWN_ADDRESSES)
