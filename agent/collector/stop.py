"""SIGTERM and SIGINT as an event that loops wait on."""

import signal
import threading


def stop_on_signals() -> threading.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second one ends the process."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
