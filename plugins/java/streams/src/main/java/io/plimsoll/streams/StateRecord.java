package io.plimsoll.streams;

import io.plimsoll.control.Json;
import io.plimsoll.streams.NextStep.Placement;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * What the planner needs to know of a Streams application, as a record of {@code
 * plimsoll.membership} with {@code "kind":"streams"}.
 *
 * <p>The field {@code streams} is a problem of kind {@code streams-tasks} as the command {@code
 * plimsoll assign} takes it: tasks and clients as Streams reported them at this rebalance, and as
 * {@code initial} the placement that this rebalance then gave. A task's {@code end_offset} is the
 * largest lag that anyone reported, and {@code lags} leave out clients that lag by all of it.
 */
final class StateRecord {
  private StateRecord() {}

  /**
   * Asks Kafka for racks where its metadata has none: this is I/O, so not for {@code assign}.
   *
   * @param given the placement that goes out, or null if another assignor's went out
   */
  static byte[] encode(String applicationId, long nowMs, Application application, Placement given) {
    Map<String, Object> record = new LinkedHashMap<>();
    record.put("v", 1);
    record.put("ms", nowMs);
    record.put("group", applicationId);
    record.put("kind", "streams");
    record.put("protocol", "classic");
    record.put("assignor", "plimsoll");
    record.put("state", "Stable");
    record.put("members", application.processes().stream().map(StateRecord::member).toList());
    Map<String, List<Set<String>>> racks = racks(application);
    Map<String, Object> shapes = new LinkedHashMap<>();
    racks.forEach(
        (topic, partitions) ->
            shapes.put(topic, fields("partitions", partitions.size(), "racks", partitions)));
    record.put("topics", shapes);
    record.put("streams", problem(application, racks, given));
    return Json.write(record).getBytes(StandardCharsets.UTF_8);
  }

  private static Map<String, Object> fields(Object... keysAndValues) {
    Map<String, Object> fields = new LinkedHashMap<>();
    for (int i = 0; i < keysAndValues.length; i += 2) {
      fields.put((String) keysAndValues[i], keysAndValues[i + 1]);
    }
    return fields;
  }

  private static Map<String, Object> member(Process process) {
    return fields(
        "stable_id", process.stableId(),
        "member_id", id(process),
        "client_id", process.stableId(),
        "instance_id", null,
        "host", process.state().hostInfo().map(host -> host.host()).orElse(""),
        "rack", process.state().rackId().orElse(null),
        "topics", List.of(),
        "owned", Map.of());
  }

  private static String id(Process process) {
    return process.id().id().toString();
  }

  /** Racks of each topic's partitions, by number; empty where unknown. */
  private static Map<String, List<Set<String>>> racks(Application application) {
    Map<TopicPartition, Set<String>> known = new HashMap<>();
    Map<String, Integer> counts = new TreeMap<>();
    for (TaskInfo task : application.tasks().values()) {
      for (TaskTopicPartition partition : task.topicPartitions()) {
        TopicPartition name = partition.topicPartition();
        counts.merge(name.topic(), name.partition() + 1, Math::max);
        Optional<Set<String>> racks = partition.rackIds();
        racks.ifPresent(ids -> known.put(name, new TreeSet<>(ids)));
      }
    }
    Map<String, List<Set<String>>> racks = new LinkedHashMap<>();
    counts.forEach(
        (topic, count) -> {
          List<Set<String>> partitions = new ArrayList<>();
          for (int p = 0; p < count; p++) {
            partitions.add(known.getOrDefault(new TopicPartition(topic, p), Set.of()));
          }
          racks.put(topic, partitions);
        });
    return racks;
  }

  private static Map<String, Object> problem(
      Application application, Map<String, List<Set<String>>> racks, Placement given) {
    List<Object> topics = new ArrayList<>();
    racks.forEach(
        (topic, partitions) -> topics.add(fields("name", topic, "partitions", partitions)));
    Map<TaskId, Long> ends = endOffsets(application);
    List<Object> tasks = new ArrayList<>();
    application.tasks().forEach((id, task) -> tasks.add(task(id, task, ends)));
    List<Object> clients = new ArrayList<>();
    application.processes().forEach(process -> clients.add(client(process, ends)));
    Map<String, Object> problem =
        fields(
            "config", config(application.configs()),
            "topics", topics,
            "tasks", tasks,
            "clients", clients);
    if (given != null) {
      Map<String, Object> active = new LinkedHashMap<>();
      given.active().forEach((task, process) -> active.put(task.toString(), id(process)));
      Map<String, Object> standby = new LinkedHashMap<>();
      given
          .copies()
          .forEach(
              (task, processes) -> {
                if (!processes.isEmpty()) {
                  standby.put(
                      task.toString(), processes.stream().map(StateRecord::id).sorted().toList());
                }
              });
      problem.put("initial", fields("active", active, "standby", standby));
    }
    return problem;
  }

  private static Map<String, Object> config(AssignmentConfigs configs) {
    return fields(
        "assignor", "plimsoll",
        "rack_aware_strategy", configs.rackAwareAssignmentStrategy(),
        "traffic_cost", orNull(configs.rackAwareTrafficCost()),
        "non_overlap_cost", orNull(configs.rackAwareNonOverlapCost()),
        "num_standby_replicas", configs.numStandbyReplicas(),
        "max_warmup_replicas", configs.maxWarmupReplicas(),
        "acceptable_recovery_lag", configs.acceptableRecoveryLag(),
        "rack_aware_assignment_tags", configs.rackAwareAssignmentTags());
  }

  private static Integer orNull(OptionalInt value) {
    return value.isPresent() ? value.getAsInt() : null;
  }

  private static Map<TaskId, Long> endOffsets(Application application) {
    Map<TaskId, Long> ends = new HashMap<>();
    for (Process process : application.processes()) {
      process
          .lags()
          .forEach(
              (task, lag) -> {
                if (lag >= 0) {
                  ends.merge(task, lag, Math::max);
                }
              });
    }
    return ends;
  }

  private static Map<String, Object> task(TaskId id, TaskInfo task, Map<TaskId, Long> ends) {
    Map<String, Object> fields =
        fields(
            "id", id.toString(),
            "stateful", task.isStateful(),
            "source",
                partitions(
                    task.topicPartitions().stream().filter(TaskTopicPartition::isSource).toList()),
            "changelog",
                partitions(
                    task.topicPartitions().stream()
                        .filter(TaskTopicPartition::isChangelog)
                        .toList()));
    if (ends.containsKey(id)) {
      fields.put("end_offset", ends.get(id));
    }
    return fields;
  }

  private static List<Object> partitions(Collection<TaskTopicPartition> partitions) {
    Map<String, Set<Integer>> sorted = new TreeMap<>();
    for (TaskTopicPartition partition : partitions) {
      sorted
          .computeIfAbsent(partition.topicPartition().topic(), topic -> new TreeSet<>())
          .add(partition.topicPartition().partition());
    }
    List<Object> list = new ArrayList<>();
    sorted.forEach((topic, numbers) -> numbers.forEach(number -> list.add(List.of(topic, number))));
    return list;
  }

  private static Map<String, Object> client(Process process, Map<TaskId, Long> ends) {
    Map<String, Object> lags = new LinkedHashMap<>();
    new TreeMap<>(process.lags())
        .forEach(
            (task, lag) -> {
              if (!lag.equals(ends.get(task))) {
                lags.put(task.toString(), lag);
              }
            });
    return fields(
        "id", id(process),
        "stable_id", process.stableId(),
        "rack", process.state().rackId().orElse(null),
        "threads", process.threads(),
        "tags", new TreeMap<>(process.state().clientTags()),
        "prev_active", process.previousActive().stream().map(TaskId::toString).toList(),
        "prev_standby",
            process.state().previousStandbyTasks().stream().map(TaskId::toString).toList(),
        "lags", lags);
  }
}
