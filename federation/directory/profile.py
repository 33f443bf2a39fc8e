"""Profiles: fields, limits, and the member events that carry them.

Client-server API, "Profiles"; server-server API, "Querying for information".
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_user_id

NAME: Final = "displayname"
AVATAR: Final = "avatar_url"
MAX_CHARACTERS: Final[Mapping[str, int]] = {NAME: 256, AVATAR: 1000}
"""As in Synapse."""
MAX_KEY_BYTES: Final = 255
MAX_BYTES: Final = 64 * 1024
"""The limit of a whole profile in canonical JSON."""

# "a custom field following the Common Namespaced Identifier Grammar": it begins with a letter from a to z,
# and holds such letters, digits, `-`, `_` and `.`.
_KEY: Final = re.compile(r"[a-z][a-z0-9._-]*", re.ASCII)
# An escaped NUL in JSON, but not an escaped backslash before "u0000". Postgres's jsonb cannot store NUL.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# Fields of one member event that do not describe the user and are not copied to the next event.
_OF_ONE_EVENT: Final = frozenset({"reason", "third_party_invite", "join_authorised_via_users_server"})


def apply_changes(profile: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile with these fields set. None removes a field, as does an empty display name or
    avatar. Raises MatrixError for invalid fields."""
    result = dict(profile)
    for key, value in changes.items():
        if len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
            raise MatrixError(
                "M_KEY_TOO_LARGE", f"The name of a profile field must have at most {MAX_KEY_BYTES} bytes."
            )
        if _KEY.fullmatch(key) is None:
            raise MatrixError(
                "M_INVALID_PARAM",
                "A profile field's name must begin with a-z and contain only a-z, 0-9, '.', '_' and '-'.",
            )
        if value is None or (value == "" and key in MAX_CHARACTERS):
            result.pop(key, None)
        else:
            _check(key, value)
            result[key] = value
    if len(encode(result)) > MAX_BYTES:
        raise MatrixError("M_PROFILE_TOO_LARGE", f"The profile must have at most {MAX_BYTES} bytes.")
    return result


def _check(key: str, value: Any) -> None:
    try:
        written = encode(value)
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"The value of {key} cannot be encoded as canonical JSON: {problem}.") from None
    if _NUL.search(written) is not None:
        raise MatrixError("M_INVALID_PARAM", f"The value of {key} contains NUL.")
    limit = MAX_CHARACTERS.get(key)
    if limit is not None and not (isinstance(value, str) and len(value) <= limit):
        raise MatrixError("M_INVALID_PARAM", f"{key} must be a string of at most {limit} characters.")


def updated_member_content(content: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content of a new member event with this profile, or None if the current content already
    has it. Other fields of the content are kept."""
    if all(content.get(name) == profile.get(name) for name in MAX_CHARACTERS):
        return None
    other_fields = {
        name: value for name, value in content.items() if name not in MAX_CHARACTERS and name not in _OF_ONE_EVENT
    }
    return {**other_fields, **{name: profile[name] for name in MAX_CHARACTERS if name in profile}}


def parse_profile_query(query: Mapping[str, str]) -> tuple[str, str | None]:
    """Parse `user_id` and `field` of a profile query."""
    user = query.get("user_id")
    if not user:
        raise MatrixError("M_MISSING_PARAM", "user_id is missing.")
    if not is_user_id(user):
        raise MatrixError("M_INVALID_PARAM", "user_id is not a valid user id.")
    return user, query.get("field")


def parse_profile(response: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse another server's response, leaving out invalid fields. None if it is larger than a profile may
    be."""
    profile: dict[str, Any] = {}
    size = 0
    for key, value in response.items():
        if key in MAX_CHARACTERS and not isinstance(value, str):
            continue
        try:
            size += len(encode({key: value}))
        except NotCanonical:
            continue
        profile[key] = value
    return profile if size <= MAX_BYTES else None
