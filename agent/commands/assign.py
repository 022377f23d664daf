"""`plimsoll assign`."""
