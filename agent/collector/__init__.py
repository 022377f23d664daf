"""Sampling of brokers and groups: the only part that asks a cluster how it is."""
