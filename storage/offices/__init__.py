"""Tables of offices: their records, rooms, tokens, and tool calls requested in rooms."""
