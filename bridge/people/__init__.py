"""The interface between people and agents in Matrix rooms, for agents of any protocol."""
