"""One file a strategy; `registry.py` lists them by name."""
