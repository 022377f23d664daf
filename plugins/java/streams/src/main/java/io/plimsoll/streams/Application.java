package io.plimsoll.streams;

import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * A Streams application at a rebalance, everything in a fixed order.
 *
 * @param processes by stable id, then process id
 */
record Application(
    SortedMap<TaskId, TaskInfo> tasks, List<Process> processes, AssignmentConfigs configs) {

  static Application of(ApplicationState state) {
    return new Application(
        new TreeMap<>(state.allTasks()),
        state.kafkaStreamsStates(true).values().stream()
            .map(Process::of)
            .sorted(Comparator.comparing(Process::stableId).thenComparing(Process::id))
            .toList(),
        state.assignmentConfigs());
  }

  /** Whether copies of the task can exist: it has a store, and the store a changelog. */
  boolean isLogged(TaskId task) {
    TaskInfo info = tasks.get(task);
    return info.isStateful()
        && info.topicPartitions().stream().anyMatch(TaskTopicPartition::isChangelog);
  }

  /** Stable ids to processes; empty if two processes share one. */
  Map<String, Process> byStableId() {
    Map<String, Process> byStableId = new HashMap<>();
    for (Process process : processes) {
      if (byStableId.put(process.stableId(), process) != null) {
        return Map.of();
      }
    }
    return byStableId;
  }

  Map<ProcessId, Process> byId() {
    Map<ProcessId, Process> byId = new HashMap<>();
    processes.forEach(process -> byId.put(process.id(), process));
    return byId;
  }

  /** Whether nobody ran anything before: there is nothing to disturb. */
  boolean isNew() {
    return processes.stream().allMatch(process -> process.previousActive().isEmpty());
  }

  /** The live process that ran each task before; a task that two claim has none. */
  Map<TaskId, Process> previousOwners() {
    Map<TaskId, Process> owners = new HashMap<>();
    Set<TaskId> doubled = new HashSet<>();
    for (Process process : processes) {
      for (TaskId task : process.previousActive()) {
        if (owners.put(task, process) != null) {
          doubled.add(task);
        }
      }
    }
    owners.keySet().removeAll(doubled);
    return owners;
  }
}
