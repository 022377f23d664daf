"""Pure, vectorised functions from measurements to costs.

No I/O; imports nothing of agent or pipeline, both of which call it.
"""
