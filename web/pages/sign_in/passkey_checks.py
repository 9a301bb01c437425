"""What the WebAuthn library builds and checks for passkeys.

To import it takes a tenth of the start of a web process, so that by_passkey.py imports this module when it is
first used.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from webauthn import (
    base64url_to_bytes,
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialCreationOptions,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRequestOptions,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

# The errors of the library, and of odd values in the JSON that it reads.
_BAD = (WebAuthnException, ValueError, TypeError, KeyError)


@dataclass(frozen=True, slots=True)
class Begun:
    """A challenge, and the JSON for the browser that contains it."""

    challenge: str
    options: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a passkey was asked to sign: the challenge, the host and the origin of the page."""

    challenge: str
    host: str
    origin: str


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A passkey that a browser made, as it is stored."""

    credential_id: str
    public_key: str
    sign_count: int


def begin_registration(host: str, username: str, email: str, name: str, known: Iterable[str]) -> Begun:
    """Return what the browser needs to make a passkey. `known`: the ids of those that the person has."""
    return _begin(
        generate_registration_options(
            rp_id=host,
            rp_name="Tocsin",
            user_id=username.encode(),
            user_name=email,
            user_display_name=name,
            exclude_credentials=[
                PublicKeyCredentialDescriptor(id=base64url_to_bytes(each)) for each in known
            ],
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
        )
    )


def check_registration(credential: dict[str, object], asked: Asked) -> NewPasskey | None:
    """Return the passkey that the browser made; None if it is invalid."""
    if _is_of_frame(credential):
        return None
    try:
        made = verify_registration_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(asked.challenge),
            expected_rp_id=asked.host,
            expected_origin=asked.origin,
            require_user_verification=True,
        )
    except _BAD:
        return None
    return NewPasskey(
        bytes_to_base64url(made.credential_id),
        bytes_to_base64url(made.credential_public_key),
        made.sign_count,
    )


def begin_sign_in(host: str) -> Begun:
    """Return the challenge that a passkey signs."""
    required = UserVerificationRequirement.REQUIRED
    return _begin(generate_authentication_options(rp_id=host, user_verification=required))


def check_sign_in(
    credential: dict[str, object], asked: Asked, public_key: str, sign_count: int
) -> int | None:
    """Return the new count of signatures of a passkey with this key and count; None if it is invalid."""
    if _is_of_frame(credential):
        return None
    try:
        verified = verify_authentication_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(asked.challenge),
            expected_rp_id=asked.host,
            expected_origin=asked.origin,
            credential_public_key=base64url_to_bytes(public_key),
            credential_current_sign_count=sign_count,
            require_user_verification=True,
        )
    except _BAD:
        return None
    return verified.new_sign_count


def _is_of_frame(credential: dict[str, object]) -> bool:
    """Return whether the browser says that our page was in a frame of another site, or says nothing readable.

    The library does not look at it. Our pages cannot be framed, so somebody changed what browsers do.
    """
    try:
        response = credential["response"]
        assert isinstance(response, dict)
        client_data = json.loads(base64url_to_bytes(response["clientDataJSON"]))
        return bool(client_data.get("crossOrigin", False)) or "topOrigin" in client_data
    except (*_BAD, AssertionError, AttributeError, RecursionError):
        return True


def _begin(options: PublicKeyCredentialCreationOptions | PublicKeyCredentialRequestOptions) -> Begun:
    return Begun(bytes_to_base64url(options.challenge), options_to_json(options))
