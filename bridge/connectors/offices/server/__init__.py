"""The Socket.IO server: connections, memberships and the relay of calls."""
