"""What the audit list contains: sign-ins and changes of rights."""

# Action -> its text in the list.
ACTIONS = {
    "signed_in": "signed in",
    "sign_in_failed": "could not sign in: wrong password",
    "signed_out": "signed out",
    "session_ended": "ended a session",
    "password_changed": "set a new password",
    "passkey_added": "added a passkey",
    "passkey_removed": "removed a passkey",
    "identity_added": "linked the sign-in at a provider",
    "sign_in_reset": "reset the ways to sign in",
    "link_created": "created a sign-in link",
    "joined": "joined the account",
    "invited": "invited a person",
    "removed": "removed a person",
    "role_changed": "changed the role of a person",
    "team_changed": "changed the teams of a person",
    "owner_changed": "made another person the owner",
    "address_changed": "changed the address of a person",
    "custom_role_changed": "changed a custom role",
    "team_permissions_changed": "changed what all members may do in a team",
    "token_created": "created a token",
    "token_changed": "changed the end of a token",
    "token_revoked": "revoked a token",
}
