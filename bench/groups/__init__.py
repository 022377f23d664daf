"""The consumer-group assignor against its peers, its referee and its own promises."""
