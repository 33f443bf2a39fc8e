"""The interface of a Matrix backend, and ghosts with their avatars."""
