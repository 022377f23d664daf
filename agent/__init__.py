"""The long-running agent and the `plimsoll` command."""
