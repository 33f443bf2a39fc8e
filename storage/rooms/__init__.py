"""Tables of rooms, their events and state, and of the stream."""
