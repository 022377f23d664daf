"""Figures of `agent.streams` against recorded runs of Kafka 4.3.1: `python -m bench.streams`."""
