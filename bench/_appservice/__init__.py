"""The parts of `bench/appservice.py`: the homeserver, its people, and the two application services."""
