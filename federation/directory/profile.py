"""What users say of themselves: the fields of a profile, their limits, and how rooms are told.

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
MOST_CHARACTERS: Final[Mapping[str, int]] = {NAME: 256, AVATAR: 1000}
"""As in Synapse."""
MOST_KEY_BYTES: Final = 255
MOST_BYTES: Final = 64 * 1024
"""Of the whole profile in canonical JSON."""

# "a custom field following the Common Namespaced Identifier Grammar": it begins with a letter from a to z,
# and holds such letters, digits, `-`, `_` and `.`.
_KEY: Final = re.compile(r"[a-z][a-z0-9._-]*", re.ASCII)
# A NUL as JSON writes it, not a backslash in front of these letters. jsonb holds none.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# What belongs to the event in which it stands, and not to whom it is about.
_OF_ONE_EVENT: Final = frozenset({"reason", "third_party_invite", "join_authorised_via_users_server"})


def changed(profile: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The profile with these fields set; None takes a field out, and so does an empty name or picture. Raises
    for what no profile may hold."""
    made = dict(profile)
    for key, value in changes.items():
        if len(key.encode("utf-8", "surrogatepass")) > MOST_KEY_BYTES:
            raise MatrixError("M_KEY_TOO_LARGE", f"A field's name has more than {MOST_KEY_BYTES} bytes.")
        if _KEY.fullmatch(key) is None:
            raise MatrixError("M_INVALID_PARAM", "A field's name has letters that it may not have.")
        if value is None or (value == "" and key in MOST_CHARACTERS):
            made.pop(key, None)
        else:
            _check(key, value)
            made[key] = value
    if len(encode(made)) > MOST_BYTES:
        raise MatrixError("M_PROFILE_TOO_LARGE", f"The profile would have more than {MOST_BYTES} bytes.")
    return made


def _check(key: str, value: Any) -> None:
    try:
        written = encode(value)
    except NotCanonical as problem:
        raise MatrixError("M_BAD_JSON", f"The value of {key} cannot be written: {problem}.") from None
    if _NUL.search(written) is not None:
        raise MatrixError("M_INVALID_PARAM", f"The value of {key} holds NUL.")
    most = MOST_CHARACTERS.get(key)
    if most is not None and not (isinstance(value, str) and len(value) <= most):
        raise MatrixError("M_INVALID_PARAM", f"{key} is text of at most {most} characters.")


def retold(content: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content of the membership event that takes the place of this one, when the profile says something
    else than it does; None when they agree. What else the event says of the user, it goes on saying."""
    if all(content.get(name) == profile.get(name) for name in MOST_CHARACTERS):
        return None
    kept = {
        name: said
        for name, said in content.items()
        if name not in MOST_CHARACTERS and name not in _OF_ONE_EVENT
    }
    return {**kept, **{name: profile[name] for name in MOST_CHARACTERS if name in profile}}


def asked(query: Mapping[str, str]) -> tuple[str, str | None]:
    """`user_id` and `field` of a server's question."""
    user = query.get("user_id")
    if not user:
        raise MatrixError("M_MISSING_PARAM", "user_id is missing.")
    if not is_user_id(user):
        raise MatrixError("M_INVALID_PARAM", "user_id is no user id.")
    return user, query.get("field")


def read(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Another server's answer, without what nobody could pass on; None if it is larger than any profile."""
    profile: dict[str, Any] = {}
    size = 0
    for key, value in answer.items():
        if key in MOST_CHARACTERS and not isinstance(value, str):
            continue
        try:
            size += len(encode({key: value}))
        except NotCanonical:
            continue
        profile[key] = value
    return profile if size <= MOST_BYTES else None
