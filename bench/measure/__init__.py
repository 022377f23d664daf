"""How good the measurements are: errors against exact truth, honesty of errors, scale, delay."""
