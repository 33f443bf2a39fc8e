"""The parts of `bench/appservice.py`: the homeserver, its people, and both that are its guests."""
