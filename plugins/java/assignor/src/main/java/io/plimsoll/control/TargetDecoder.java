package io.plimsoll.control;

import io.plimsoll.control.Target.TaskShare;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The door of the control topic: bytes in, a {@link Target} or a {@link Claim} out, or a {@link
 * BadRecordException} that names the field.
 *
 * <p>Unknown fields are ignored. It checks what a record says by itself; whether its epoch may
 * speak is for {@link TargetLog}, whether it fits the live members for {@code Repair}.
 */
final class TargetDecoder {
  static final long VERSION = 1;

  /** No broker accepts larger records by default (message.max.bytes), and the agent stays below. */
  static final int RECORD_BYTES_MAX = 1_048_576;

  /** Largest weight or capacity: up to here sums over all partitions stay exact enough. */
  private static final double AMOUNT_MAX = 1L << 53;

  /**
   * A claim: the record by which an agent takes over. Its own offset is the epoch.
   *
   * @param topicId the control topic that the agent wrote it to, or null if it does not say
   */
  record Claim(String topicId) {}

  private TargetDecoder() {}

  static long version(byte[] value) {
    Map<String, Object> record = object(Json.parse(value), "");
    return integer(record, "v", "v", 0);
  }

  static Claim claim(byte[] value) {
    Map<String, Object> record = object(Json.parse(value), "");
    return new Claim(
        record.get("topic_id") == null ? null : string(record, "topic_id", "topic_id"));
  }

  static Target target(byte[] value) {
    Map<String, Object> record = object(Json.parse(value), "");
    Map<String, Object> base = object(record.get("base"), "base");
    boolean streams = record.get("streams") != null;
    Map<String, Map<String, int[]>> assignment =
        streams && record.get("assignment") == null
            ? Map.of()
            : assignment(object(record.get("assignment"), "assignment"));
    Map<String, TaskShare> tasks =
        streams
            ? tasks(
                object(
                    object(record.get("streams"), "streams").get("assignment"),
                    "streams.assignment"))
            : Map.of();
    Set<String> members = new HashSet<>(strings(base.get("members"), "base.members"));
    members.addAll(assignment.keySet());
    members.addAll(tasks.keySet());
    return new Target(
        new Position(
            integer(record, "epoch", "epoch", 0), integer(record, "revision", "revision", 0)),
        record.get("plan_id") instanceof String planId ? planId : "",
        integer(record, "ms", "ms", 0),
        integer(record, "ttl_ms", "ttl_ms", 0),
        string(record, "mode", "mode"),
        members,
        assignment,
        weights(optionalObject(record, "weights")),
        capacity(optionalObject(record, "capacity")),
        tasks);
  }

  private static Map<String, Map<String, int[]>> assignment(Map<String, Object> members) {
    Map<String, Map<String, int[]>> assignment = new HashMap<>();
    Map<String, Set<Integer>> given = new HashMap<>();
    members.forEach(
        (member, share) -> {
          String path = "assignment." + member;
          Map<String, int[]> topics = new HashMap<>();
          object(share, path)
              .forEach(
                  (topic, list) -> {
                    int[] partitions = partitions(list, path + "." + topic);
                    Set<Integer> taken = given.computeIfAbsent(topic, t -> new HashSet<>());
                    for (int partition : partitions) {
                      if (!taken.add(partition)) {
                        throw new BadRecordException(
                            path + "." + topic, "partition " + partition + " is given twice");
                      }
                    }
                    topics.put(topic, partitions);
                  });
          assignment.put(member, topics);
        });
    return assignment;
  }

  private static int[] partitions(Object value, String path) {
    List<Object> list = list(value, path);
    int[] partitions = new int[list.size()];
    for (int i = 0; i < partitions.length; i++) {
      if (!(list.get(i) instanceof Long number) || number < 0 || number >= Integer.MAX_VALUE) {
        throw new BadRecordException(path + "[" + i + "]", "not a partition number");
      }
      partitions[i] = number.intValue();
    }
    return partitions;
  }

  private static Map<String, TaskShare> tasks(Map<String, Object> processes) {
    Map<String, TaskShare> tasks = new HashMap<>();
    Set<String> actives = new HashSet<>();
    processes.forEach(
        (process, share) -> {
          String path = "streams.assignment." + process;
          Map<String, Object> fields = object(share, path);
          Set<String> copies = new HashSet<>();
          List<String> active = copies(fields, path, "active", copies);
          for (String task : active) {
            if (!actives.add(task)) {
              throw new BadRecordException(path + ".active", "task " + task + " is given twice");
            }
          }
          tasks.put(
              process,
              new TaskShare(
                  active,
                  copies(fields, path, "standby", copies),
                  copies(fields, path, "warmup", copies)));
        });
    return tasks;
  }

  private static List<String> copies(
      Map<String, Object> share, String path, String role, Set<String> copies) {
    Object value = share.get(role);
    List<String> tasks = value == null ? List.of() : strings(value, path + "." + role);
    for (String task : tasks) {
      if (!copies.add(task)) {
        throw new BadRecordException(path + "." + role, "two copies of task " + task);
      }
    }
    return tasks;
  }

  private static Map<String, double[]> weights(Map<String, Object> topics) {
    Map<String, double[]> weights = new HashMap<>();
    topics.forEach(
        (topic, value) -> {
          List<Object> list = list(value, "weights." + topic);
          double[] weight = new double[list.size()];
          for (int i = 0; i < weight.length; i++) {
            weight[i] = amount(list.get(i), "weights." + topic + "[" + i + "]");
          }
          weights.put(topic, weight);
        });
    return weights;
  }

  private static Map<String, Double> capacity(Map<String, Object> members) {
    Map<String, Double> capacity = new HashMap<>();
    members.forEach((member, value) -> capacity.put(member, amount(value, "capacity." + member)));
    return capacity;
  }

  private static double amount(Object value, String path) {
    if (!(value instanceof Number number)
        || number.doubleValue() < 0
        || number.doubleValue() > AMOUNT_MAX) {
      throw new BadRecordException(path, "not a number from 0 to 2^53");
    }
    return number.doubleValue();
  }

  private static long integer(Map<String, Object> record, String field, String path, long min) {
    if (!(record.get(field) instanceof Long number) || number < min) {
      throw new BadRecordException(path, "not a whole number of at least " + min);
    }
    return number;
  }

  private static String string(Map<String, Object> record, String field, String path) {
    if (!(record.get(field) instanceof String string)) {
      throw new BadRecordException(path, "not a string");
    }
    return string;
  }

  private static List<String> strings(Object value, String path) {
    List<String> strings = new ArrayList<>();
    for (Object item : list(value, path)) {
      if (!(item instanceof String string)) {
        throw new BadRecordException(path + "[" + strings.size() + "]", "not a string");
      }
      strings.add(string);
    }
    return strings;
  }

  private static Map<String, Object> optionalObject(Map<String, Object> record, String field) {
    return record.get(field) == null ? Map.of() : object(record.get(field), field);
  }

  @SuppressWarnings("unchecked") // Json makes no maps with other keys
  private static Map<String, Object> object(Object value, String path) {
    if (!(value instanceof Map<?, ?>)) {
      throw new BadRecordException(path, "not an object");
    }
    return (Map<String, Object>) value;
  }

  @SuppressWarnings("unchecked") // Json makes only this kind of list
  private static List<Object> list(Object value, String path) {
    if (!(value instanceof List<?>)) {
      throw new BadRecordException(path, "not an array");
    }
    return (List<Object>) value;
  }
}
