"""A real Kafka cluster on loopback without Docker, its load and the demo."""
