"""Records of a run, fingerprints and pins."""
