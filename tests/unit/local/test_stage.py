"""The stage of the demo: who yields to whom."""

import os
from pathlib import Path

from deploy.local.demo.stage import lower_priority
from deploy.local.leash import Leash


def test_a_session_yields() -> None:
    """Its leader is nice, and so is the group that the kernel schedules it in."""
    with Leash() as leash:
        leader = leash.spawn(["sleep", "600"])
        lower_priority(leader.pid, 7)
        assert os.getpriority(os.PRIO_PROCESS, leader.pid) == 7
        group = Path(f"/proc/{leader.pid}/autogroup")
        told = group.read_text().split() if group.exists() else []
        assert not told or told[-1] == "7"  # nothing where the kernel does not group sessions
