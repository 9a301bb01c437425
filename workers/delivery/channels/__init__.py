"""The channels: one file for each.

models/domain/channels.py lists them; workers/delivery/transport/channel.py defines their interface.
"""
