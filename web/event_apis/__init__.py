"""The event APIs of other services: their senders need another URL and the key of an integration.

The key of an integration authorizes only these operations, and an API token none of them. The answers have
the form of the other service. They are sent after the commit, like those of our own operations.
"""
