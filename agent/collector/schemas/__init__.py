"""Kafka's message schemas that kafka-python does not carry, in Kafka's own form."""
