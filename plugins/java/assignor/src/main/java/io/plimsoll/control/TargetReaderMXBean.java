package io.plimsoll.control;

import java.util.Map;

/** What the reader of the control topic shows over JMX. */
public interface TargetReaderMXBean {
  /**
   * STARTING, CATCHING_UP, LIVE, or what it is waiting for: NO_TOPIC, BAD_TOPIC, UNREACHABLE,
   * FAILED.
   */
  String getState();

  long getRecordsReadTotal();

  long getRecordsRejectedTotal();

  /** Records by outcome, for example REJECTED_STALE_EPOCH. */
  Map<String, Long> getRecordsByOutcome();

  /** Offset of the newest claim: the epoch that may speak; -1 if none was read. */
  long getNewestClaim();

  /** Group id to the epoch of its target. */
  Map<String, Long> getEpochs();

  /** Group id to the revision of its target. */
  Map<String, Long> getRevisions();
}
