"""Offices as Matrix rooms: their state, their timeline, the call log and archiving."""
