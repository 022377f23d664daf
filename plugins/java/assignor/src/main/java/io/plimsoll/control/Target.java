package io.plimsoll.control;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What the agent wants of one group: a record of the control topic that has passed the door ({@link
 * TargetDecoder}).
 *
 * @param position the agent's epoch and the group's revision
 * @param createdMs when the agent wrote it, epoch milliseconds
 * @param ttlMs for how long the agent vouches for it, milliseconds
 * @param mode only a target in mode {@value #ENFORCE} is followed
 * @param members stable ids that the agent knew; one without an entry in the assignment gets
 *     nothing
 * @param assignment stable id to topic to partitions, each partition at most once
 * @param weights topic to the cost of each of its partitions, by partition number, any one unit
 * @param capacity stable id to share, any one unit
 * @param tasks for a Kafka Streams application: stable id to its tasks; else empty
 */
public record Target(
    Position position,
    String planId,
    long createdMs,
    long ttlMs,
    String mode,
    Set<String> members,
    Map<String, Map<String, int[]>> assignment,
    Map<String, double[]> weights,
    Map<String, Double> capacity,
    Map<String, TaskShare> tasks) {

  /** The mode in which members follow the target. */
  public static final String ENFORCE = "enforce";

  /** The tasks of one Streams process, each task at most once within it. */
  public record TaskShare(List<String> active, List<String> standby, List<String> warmup) {}

  public boolean isEnforced() {
    return ENFORCE.equals(mode);
  }

  public boolean isExpired(long nowMs) {
    return nowMs - createdMs > ttlMs;
  }
}
