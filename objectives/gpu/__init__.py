"""The GPU process and what it does with a candidate: load, check, measure."""
