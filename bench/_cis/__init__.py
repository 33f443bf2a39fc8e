"""The parts of `bench/cis.py`: nodes that exchange agents, an agent that answers, and large numbers of
agents."""
