"""Tables of the federation with other servers, and of local users."""
