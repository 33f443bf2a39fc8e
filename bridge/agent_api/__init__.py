"""The interface by which programs attach themselves as agents: what is said in it, and its description."""
