"""By what a message of ours is known when it comes back, so that nobody says it twice.

A homeserver remembers the transaction ids of its clients until it is started again, and an application
service is one client for all of its users. What is written into a message is there as long as the message.
"""

from hashlib import sha256


def transaction_key(sender: str, room_id: str, transaction_id: str) -> str:
    """The same transaction id of another sender, or in another room, has another key; and nobody who reads
    it learns how the node counts."""
    # No id holds NUL.
    named = f"{sender}\0{room_id}\0{transaction_id}"
    return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
