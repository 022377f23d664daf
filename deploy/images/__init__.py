"""Images for docker-compose.yml."""
