"""A browser that uses the pages: it keeps cookies, and sends the token of the form with each POST."""

import re

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from models.sign_in import sessions
from models.sign_in.sessions import Browser as Known
from models.store.store import store
from models.tables.accounts import User
from web.pages import forms

HOST = "https://tocsin.example.org"
ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SESSION_COOKIE = "__Host-tocsin-session"
FORM_COOKIE = "__Host-tocsin-form"
DEVICE_COOKIE = "__Host-tocsin-device"
TOKEN = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class PageBrowser:
    """Requests pages as one browser does. `last` is the page that it shows."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.client: FlaskClient = app.test_client()
        self.last: TestResponse | None = None

    def start_session(self, user: User, method: str = "password") -> None:
        """Sign a person in without the sign-in page."""
        with store().write_transaction():
            secret = sessions.start(user, method, Known("Firefox", "192.0.2.1"), store().now())
        self.client.set_cookie(SESSION_COOKIE, secret, domain="tocsin.example.org", secure=True)

    def get(self, path: str, **headers: str) -> TestResponse:
        return self._open("GET", path, headers)

    def post(self, path: str, csrf: str | None = None, **fields: str) -> TestResponse:
        """Send a form. `csrf` None: with the token that a page of this host has."""
        token = self.get_token() if csrf is None else csrf
        return self._open("POST", path, {}, {"csrf": token, **fields})

    def follow(self) -> TestResponse:
        """Request the page to which the last answer redirects."""
        return self.get(self.last.headers["Location"])

    def get_token(self) -> str:
        """Return the token of the form of the last page, or else that of the forms of this browser."""
        if self.last is not None and (found := TOKEN.search(self.last.text)):
            return found[1]
        secret = self.get_cookie(SESSION_COOKIE) or self.get_cookie(FORM_COOKIE)
        return forms.mask_token(forms.derive_token(secret)) if secret else ""

    def get_cookie(self, name: str) -> str | None:
        found = self.client.get_cookie(name, domain="tocsin.example.org")
        return found.value if found is not None else None

    def _open(self, method: str, path: str, headers: dict[str, str], form=None) -> TestResponse:
        self.last = self.client.open(
            path, method=method, base_url=HOST, headers={"Accept": ACCEPT, **headers}, data=form
        )
        return self.last


def find_token(page: TestResponse) -> str:
    """Return the token that the form of a page contains."""
    return TOKEN.search(page.text)[1]
