"""How Plimsoll is run: locally, in containers, with dashboards."""
