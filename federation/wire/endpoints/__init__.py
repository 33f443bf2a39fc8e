"""One file an endpoint. Each module has `ROUTES`, which `federation/wire/app.py` collects."""
