"""Whether a user of this server may be invited from outside."""

from federation.errors import MatrixError
from federation.service.living.parts import Profiles
from federation.service.membership_requests import InvitePolicy


def invites_for(profiles: Profiles, wants: InvitePolicy | None = None) -> InvitePolicy:
    """Those that there are, as far as `wants` does not refuse. It is the node's own policy: a MatrixError,
    M_INVITE_BLOCKED for one who does not want to."""

    async def may_be_invited(user: str, sender: str, room_id: str) -> None:
        if not await profiles.exists(user):
            raise MatrixError("M_NOT_FOUND", f"There is no user {user[:255]} here.", 404)
        if wants is not None:
            await wants(user, sender, room_id)

    return may_be_invited
