"""Tables of the exchange with other servers."""
