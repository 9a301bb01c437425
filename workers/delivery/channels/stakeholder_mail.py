"""Send mails to stakeholders: as e-mail, with connections and a thread of their own."""

from workers.delivery.channels.email import create_channel

__all__ = ["create_channel"]
