"""The parts of `bench/offices.py`: both servers, and the Agents and Computers in their offices."""
