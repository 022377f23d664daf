"""One module per verb of the `plimsoll` command; heavy imports stay inside the functions."""
