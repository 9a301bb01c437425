"""Callbacks of providers: people answer a message where they read it.

One module for each channel with buttons. Beside them:

- `received`: remember callbacks, so that none acts twice.
- `answer`: acknowledge or resolve an incident for the person whose contact answered.
"""
