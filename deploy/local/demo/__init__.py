"""The demo: an uneven group becomes level, on a real Kafka, in about four minutes."""
