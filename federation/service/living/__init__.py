"""What this server's users do in rooms; `federation.service.rooms.Rooms` is all of it together."""
