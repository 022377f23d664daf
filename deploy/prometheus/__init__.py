"""Prometheus beside the cluster: what brokers export, and a real server without containers."""
