package io.plimsoll.streams;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * When to rebalance again to see whether there is a new target, or a copy has caught up.
 *
 * <p>Streams rebalances at a deadline that the assignment carries; nothing else makes a stable
 * application ask its assignor again. So each assignment carries one: soon after something changed,
 * then at twice the time as long as nothing does, up to {@code probing.rebalance.interval.ms}.
 */
final class FollowupPace {
  /** First wait after a change, milliseconds: time for the agent to see it and to plan. */
  static final long FIRST_MS = 10_000;

  private static final Map<String, FollowupPace> SHARED = new ConcurrentHashMap<>();

  private Object last;
  private long waitMs;

  /** The pace of an application; Streams makes a new assignor for each rebalance. */
  static FollowupPace shared(String applicationId) {
    return SHARED.computeIfAbsent(applicationId, id -> new FollowupPace());
  }

  /**
   * How long to wait this time, milliseconds.
   *
   * @param outcome anything that is equal to the last one if nothing changed
   */
  synchronized long next(Object outcome, long longestMs) {
    waitMs = outcome.equals(last) ? Math.min(2 * waitMs, longestMs) : FIRST_MS;
    last = outcome;
    return Math.min(waitMs, longestMs);
  }
}
