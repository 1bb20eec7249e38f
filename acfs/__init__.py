"""What an ACF is, packs of them, the store, and the ptxas they fit."""
