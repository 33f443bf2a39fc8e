"""The parts of `bench/appservice.py`: the homeserver, its people, our node and the bare bot that are its guests."""
