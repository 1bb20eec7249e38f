"""Load a kernel, compile candidates in worker processes, check them, and score what came out."""
