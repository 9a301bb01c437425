"""An OpenID provider on this host: discovery, the code flow with PKCE, UserInfo.

It plays the provider with the server side of Authlib and joserfc, and can be made to answer wrongly.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "tocsin", "a client secret"
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


@dataclass
class Provider:
    """The provider. `person` are the claims of who signs in; the other fields change its answers."""

    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1"})
    change_claims: Callable[[dict[str, Any]], object] = lambda claims: None
    change_metadata: Callable[[dict[str, Any]], object] = lambda metadata: None
    key: RSAKey = field(default_factory=lambda: KEY)
    algorithm: str = "RS256"
    in_user_info: tuple[str, ...] = ()
    user_info_subject: str | None = None
    user_info_fails: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def describe(self) -> dict[str, Any]:
        paths = {"authorization": "auth", "token": "token", "userinfo": "me"}
        found: dict[str, Any] = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in paths.items()}
        found |= {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        self.change_metadata(found)
        return found

    def authorize(self, url: str) -> dict[str, str]:
        """Sign the person in without a page. Return the query with which the browser goes back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert query["client_id"] == CLIENT_ID
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert "openid" in query["scope"].split()
        code = f"code{len(self.codes)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def exchange(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        query = self.codes.pop(form.get("code", ""), None)
        challenge = create_s256_code_challenge(form.get("code_verifier", ""))
        if query is None or challenge != query["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if form.get("redirect_uri") != query["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": query["nonce"],
            **{name: value for name, value in self.person.items() if name not in self.in_user_info},
        }  # fmt: skip
        self.change_claims(claims)
        header = {"alg": self.algorithm, "kid": "one"}
        key: Any = self.key
        token = jwt.encode(header, claims, key, algorithms=[self.algorithm])
        return 200, {"access_token": "access", "token_type": "Bearer", "expires_in": 300, "id_token": token}

    def get_user_info(self) -> dict[str, Any]:
        return {**self.person, "sub": self.user_info_subject or self.person["sub"]}


@contextmanager
def run_provider() -> Iterator[Provider]:
    """Run a provider during the block."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            provider.requests.append(path)
            if path == "/.well-known/openid-configuration":
                self._answer(200, provider.describe())
            elif path == "/keys":
                self._answer(200, {"keys": [KEY.as_dict(private=False)]})
            elif path == "/me" and provider.user_info_fails:
                self._answer(500, {})
            elif path == "/me" and self.headers["Authorization"] == "Bearer access":
                self._answer(200, provider.get_user_info())
            elif path == "/auth":
                query = provider.authorize(self.path)
                redirect = parse_qs(urlsplit(self.path).query)["redirect_uri"][0]
                self.send_response(302)
                self.send_header("Location", f"{redirect}?{urlencode(query)}")
                self.end_headers()
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            provider.requests.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(*provider.exchange({name: each[0] for name, each in parse_qs(body).items()}))

        def _answer(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
