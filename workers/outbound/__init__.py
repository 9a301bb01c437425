"""Send incidents to outbound integrations (contract section 4.8).

The deliveries are written with the changes of incidents (models/write/outbound.py). They are sent by threads
of their own, so that a slow receiver never delays a message to a person.
"""
