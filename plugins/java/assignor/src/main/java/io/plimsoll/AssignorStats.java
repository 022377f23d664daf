package io.plimsoll;

import io.plimsoll.assign.Round.Outcome;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.JMException;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts the decisions for one group; one per group and JVM, whichever consumer leads. */
final class AssignorStats implements AssignorStatsMXBean {
  private static final Logger LOG = LoggerFactory.getLogger(AssignorStats.class);
  private static final Map<String, AssignorStats> SHARED = new ConcurrentHashMap<>();

  private final Map<String, Long> decisions = new TreeMap<>();
  private long moved;
  private long microsMax;

  static AssignorStats shared(String group) {
    return SHARED.computeIfAbsent(
        group,
        key -> {
          AssignorStats stats = new AssignorStats();
          try {
            ManagementFactory.getPlatformMBeanServer()
                .registerMBean(
                    stats,
                    new ObjectName("io.plimsoll:type=Assignor,group=" + ObjectName.quote(group)));
          } catch (JMException | SecurityException e) {
            LOG.info("No JMX view of group {}: {}", group, e.toString());
          }
          return stats;
        });
  }

  synchronized void count(Outcome outcome, long micros) {
    decisions.merge(outcome.how() + "/" + outcome.reason(), 1L, Long::sum);
    moved += outcome.moved();
    microsMax = Math.max(microsMax, micros);
  }

  @Override
  public synchronized Map<String, Long> getAssignmentsByDecision() {
    return new TreeMap<>(decisions);
  }

  @Override
  public synchronized long getAssignmentsTotal() {
    return decisions.values().stream().mapToLong(Long::longValue).sum();
  }

  @Override
  public synchronized long getPartitionsMovedTotal() {
    return moved;
  }

  @Override
  public synchronized long getAssignMicrosMax() {
    return microsMax;
  }
}
