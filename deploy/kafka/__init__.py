"""Rights on the Kafka cluster that Plimsoll needs, as data and as commands."""
