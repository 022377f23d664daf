package io.plimsoll.streams;

import io.plimsoll.assign.Intent;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What a leader remembers of an application from one rebalance to the next; Streams makes a new
 * assignor for each.
 *
 * <p>First, where the last round wanted tasks to go ({@link Intent}). Second, how long it waited
 * before looking again: Streams rebalances at a deadline that the assignment carries, and nothing
 * else makes a stable application ask its assignor. So each assignment carries one: soon after
 * something changed, then after twice the time as long as nothing does, up to {@code
 * probing.rebalance.interval.ms}.
 */
final class Memory {
  /** First wait after a change, milliseconds: time for the agent to see it and to plan. */
  static final long FIRST_FOLLOWUP_MS = 10_000;

  private static final Map<String, Memory> SHARED = new ConcurrentHashMap<>();

  private Intent intent = Intent.NONE;
  private Object lastOutcome;
  private long waitMs;

  static Memory of(String applicationId) {
    return SHARED.computeIfAbsent(applicationId, id -> new Memory());
  }

  synchronized Intent intent() {
    return intent;
  }

  synchronized void remember(Intent newIntent) {
    intent = newIntent;
  }

  /**
   * How long to wait this time, milliseconds.
   *
   * @param outcome anything that is equal to the last one if nothing changed
   */
  synchronized long followupMs(Object outcome, long longestMs) {
    waitMs = outcome.equals(lastOutcome) ? Math.min(2 * waitMs, longestMs) : FIRST_FOLLOWUP_MS;
    lastOutcome = outcome;
    return Math.min(waitMs, longestMs);
  }
}
