package io.plimsoll;

import java.util.Map;

/** What the leaders in this JVM decided for one group, over JMX. */
public interface AssignorStatsMXBean {
  /** How often {@code assign} ran, by how and why: for example {@code FALLBACK/NO_TARGET}. */
  Map<String, Long> getAssignmentsByDecision();

  long getAssignmentsTotal();

  /** Partitions taken from a live owner so far. */
  long getPartitionsMovedTotal();

  /** How long the slowest {@code assign} took, microseconds. */
  long getAssignMicrosMax();
}
