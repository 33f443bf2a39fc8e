"""Rooms in which people and agents meet: reading them, and writing into them."""
