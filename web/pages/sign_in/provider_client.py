"""A client of the OpenID provider: discovery, the code flow with PKCE, and the checks of its answers.

Authlib builds the requests and checks the claims, joserfc the signatures. To import both takes a tenth of
the start of a web process, so that by_provider.py imports this module when it is first used.
"""

import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NotRequired, TypedDict, cast

import requests
import structlog
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from models.sign_in.identities import SUBJECT_LIMIT, ProvenIdentity, read_groups
from models.sign_in.sessions import RECENT
from models.store.ids import make_token
from runtime.setting_values import is_private_url
from runtime.settings import Settings
from web.pages.sign_in.provider import CLOCK_SKEW_S, ProviderError

log = structlog.get_logger()

TIMEOUT_S = 5.0
ANSWER_LIMIT = 256 * 1024
# For so long, a process uses what it has read of the provider. New keys are read at once.
CACHED_S = 600
# The end of the year 9999, in epoch seconds.
MAX_TIME = 253_402_300_000
# Signatures with public keys only: with HS256, the client secret would be a key.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
SCOPE = "openid email profile groups"
CALLBACK = "/sign-in/provider/callback/"
# The value of a step that asked the provider for a new sign-in.
ASKED_AGAIN = "asked_again"


class Metadata(TypedDict):
    """The part of the provider's description that is used here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: NotRequired[str]
    claims_supported: NotRequired[object]


# An object of JSON.
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Start:
    """The address to which the person goes, and what the answer must match."""

    url: str
    values: dict[str, str]


class ProviderClient:
    """One provider, as its settings name it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def begin(self, *, is_again: bool = False) -> Start:
        """Return where the person signs in. Raises ProviderError.

        `is_again`: a session at the provider is not enough, and the ID token says when the person signed in.
        """
        more = {"prompt": "login", "max_age": int(RECENT.total_seconds())} if is_again else {}
        metadata = _load_metadata(self._settings.oidc_issuer, _get_period())
        values = {"state": make_token(), "nonce": make_token(), "verifier": generate_token(64)}
        if is_again:
            values[ASKED_AGAIN] = "1"
        url, _ = self._open_session().create_authorization_url(
            metadata["authorization_endpoint"],
            state=values["state"],
            nonce=values["nonce"],
            code_verifier=values["verifier"],
            **more,
        )
        return Start(url, values)

    def finish(self, query: Mapping[str, str], values: Mapping[str, str], now_s: float) -> ProvenIdentity:
        """Exchange the code of an answer for the identity of the person. Raises ProviderError."""
        metadata = _load_metadata(self._settings.oidc_issuer, _get_period())
        if not hmac.compare_digest(query.get("state", "").encode(), values["state"].encode()):
            raise ProviderError("The answer belongs to another sign-in. Try again.")
        # RFC 9207: of two providers, one must not pass on the code of the other.
        if query.get("iss", metadata["issuer"]) != metadata["issuer"]:
            raise ProviderError("The answer is from another provider.")
        if "code" not in query:
            raise ProviderError("The provider did not sign you in.")
        token = self._fetch_token(metadata, query["code"], values["verifier"])
        claims = self._check_id_token(metadata, token, values["nonce"], now_s)
        completed = self._complete(metadata, token, claims)
        signed_in_at = _read_sign_in(claims)
        if "auth_time" not in claims and ASKED_AGAIN in values and not _can_say_when(metadata):
            # The provider was asked for a new sign-in, and never says when people signed in (decision 0088).
            signed_in_at = int(now_s)
        return replace(_read_identity(metadata["issuer"], completed), signed_in_at=signed_in_at)

    def _open_session(self, token: Mapping[str, object] | None = None) -> OAuth2Session:
        session = OAuth2Session(
            client_id=self._settings.oidc_client_id,
            client_secret=self._settings.oidc_client_secret or None,
            scope=SCOPE,
            redirect_uri=f"{self._settings.public_url}{CALLBACK}",
            code_challenge_method="S256",
            default_timeout=TIMEOUT_S,
            token=token,
        )
        session.max_redirects = 0
        return session

    def _fetch_token(self, metadata: Metadata, code: str, verifier: str) -> Values:
        try:
            token: Values = self._open_session().fetch_token(
                metadata["token_endpoint"], code=code, code_verifier=verifier, grant_type="authorization_code"
            )
        except (OAuthError, requests.RequestException, ValueError) as error:
            raise ProviderError("The provider did not accept the sign-in. Try again.") from error
        if not isinstance(token.get("id_token"), str):
            raise ProviderError("The provider sent no ID token.")
        return token

    def _check_id_token(self, metadata: Metadata, token: Values, nonce: str, now_s: float) -> Values:
        """Return the claims of the ID token, after the checks of OpenID Connect Core, section 3.1.3.7."""
        client_id = self._settings.oidc_client_id
        try:
            decoded = self._decode(metadata, str(token["id_token"]))
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": metadata["issuer"]},
                    "aud": {"essential": True, "value": client_id},
                    "nonce": {"essential": True, "value": nonce},
                },
                params={"nonce": nonce, "client_id": client_id, "access_token": token.get("access_token")},
            )
            claims.validate(now=int(now_s), leeway=CLOCK_SKEW_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ProviderError("The ID token of the provider is not valid.") from error
        return dict(claims)

    def _decode(self, metadata: Metadata, text: str) -> jwt.Token:
        """Check the signature. The provider may have new keys since they were read."""
        period = _get_period()
        try:
            return jwt.decode(text, _load_keys(metadata["jwks_uri"], period), algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            return jwt.decode(text, _fetch_keys(metadata["jwks_uri"]), algorithms=ALGORITHMS)

    def _complete(self, metadata: Metadata, token: Values, claims: Values) -> Values:
        """Return the claims with those that the provider gives only at its UserInfo endpoint.

        With a verified address in the ID token, only groups can be missing. Then the person signs in without
        them if UserInfo fails: nobody leaves a team by that.
        """
        has_address = "email" in claims and "email_verified" in claims
        has_all = has_address and ("groups" in claims or not self._settings.oidc_groups)
        if has_all or "userinfo_endpoint" not in metadata:
            return claims
        try:
            _check_endpoint("userinfo_endpoint", metadata["userinfo_endpoint"])
            found = _fetch_json(metadata["userinfo_endpoint"], f"Bearer {token.get('access_token', '')}")
        except ProviderError as error:
            if claims.get("email_verified") is not True or not isinstance(claims.get("email"), str):
                raise
            log.warning("UserInfo failed, so that groups are unknown", reason=str(error))
            return claims
        # OpenID Connect Core, section 5.3.2: otherwise it can be the answer about another person.
        if found.get("sub") != claims["sub"]:
            raise ProviderError("The provider answered about another person.")
        # Whether an address is verified, only the source of the address can say.
        source = claims if has_address or "email" not in found else found
        address = {name: source.get(name) for name in ("email", "email_verified")}
        return {**found, **claims, **address}


def _read_identity(issuer: str, claims: Values) -> ProvenIdentity:
    subject, address = claims["sub"], claims.get("email")
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_LIMIT or not subject.isprintable():
        raise ProviderError("The provider sent an unusable subject.")
    is_verified = claims.get("email_verified") is True and isinstance(address, str)
    return ProvenIdentity(issuer, subject, str(address) if is_verified else "", read_groups(claims))


def _read_sign_in(claims: Values) -> int | None:
    """Return when the person signed in at the provider (auth_time); None: it does not say."""
    at = claims.get("auth_time")
    return at if isinstance(at, int) and not isinstance(at, bool) and 0 < at < MAX_TIME else None


def _can_say_when(metadata: Metadata) -> bool:
    """Return whether the provider has the claim `auth_time`. It may send it only if it is asked."""
    names = metadata.get("claims_supported")
    return isinstance(names, list) and "auth_time" in names


def _get_period() -> int:
    return int(time.monotonic() // CACHED_S)


@lru_cache(maxsize=4)
def _load_metadata(issuer: str, period: int) -> Metadata:
    """Return the provider's description of itself (OpenID Connect Discovery)."""
    if not is_private_url(issuer):
        raise ProviderError("TOCSIN_OIDC_ISSUER must begin with https://: others can change what is sent.")
    metadata = _fetch_json(f"{issuer}/.well-known/openid-configuration")
    if str(metadata.get("issuer", "")).rstrip("/") != issuer:
        raise ProviderError("The provider names another issuer than TOCSIN_OIDC_ISSUER.")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        _check_endpoint(name, metadata.get(name))
    return cast(Metadata, metadata)


def _check_endpoint(name: str, url: object) -> None:
    if not isinstance(url, str) or not is_private_url(url):
        raise ProviderError(f"The provider has no usable {name}: it needs https.")


@lru_cache(maxsize=4)
def _load_keys(url: str, period: int) -> KeySet:
    return _fetch_keys(url)


def _fetch_keys(url: str) -> KeySet:
    return KeySet.import_key_set(cast(Any, _fetch_json(url)))


def _fetch_json(url: str, authorization: str = "") -> Values:
    """Return an object that the provider serves. Raises ProviderError."""
    headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
    try:
        with requests.get(
            url, headers=headers, timeout=TIMEOUT_S, allow_redirects=False, stream=True
        ) as answer:
            answer.raise_for_status()
            data = answer.raw.read(ANSWER_LIMIT + 1, decode_content=True)
            if len(data) > ANSWER_LIMIT:
                raise ProviderError("The answer of the provider is too large.")
            found = json.loads(data)
    except (requests.RequestException, ValueError, OSError) as error:
        raise ProviderError("The provider cannot be reached. Sign in in another way.") from error
    if not isinstance(found, dict):
        raise ProviderError("The provider sent no object.")
    return found
