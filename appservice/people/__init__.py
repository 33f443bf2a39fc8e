"""Ghosts, double puppets and sending as people."""
