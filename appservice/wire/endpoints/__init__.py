"""One file an endpoint. Each module has `ROUTES`, which `appservice/wire/app.py` collects."""
