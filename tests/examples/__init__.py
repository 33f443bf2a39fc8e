"""The examples, run as after the installation of the wheel."""
