"""The wire format of `io.cis.agent.*`."""
