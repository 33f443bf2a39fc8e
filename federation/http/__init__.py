"""The aiohttp application of the port."""
