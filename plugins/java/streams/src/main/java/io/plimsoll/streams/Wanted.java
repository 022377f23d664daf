package io.plimsoll.streams;

import io.plimsoll.assign.Claims;
import io.plimsoll.assign.Intent;
import io.plimsoll.assign.Member;
import io.plimsoll.assign.Repair;
import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import io.plimsoll.control.Target.TaskShare;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * Where every task should run in the end; how to get there is for {@link NextStep}.
 *
 * @param active every task of the application to a live process
 * @param standby tasks to the live processes that should hold a copy; may name too few
 * @param warmup the same for extra copies that are to become active later
 * @param exact whether it is the plan it was made from, to the letter
 * @param intent for the next rebalance's sake
 */
record Wanted(
    Map<TaskId, Process> active,
    Map<TaskId, List<Process>> standby,
    Map<TaskId, List<Process>> warmup,
    boolean exact,
    Intent intent) {

  /**
   * What a target asks for, repaired for the processes that are there. Actives are repaired as
   * partitions are ({@link Repair}), a subtopology taking a topic's place: tasks that the target
   * leaves open stay with their owner or go to the least loaded, and a process that it does not
   * name is filled.
   *
   * @param target null if nothing is known
   * @param last the intent of the rebalance before
   */
  static Wanted of(Target target, Lead lead, Application application, Intent last) {
    Position position = target == null ? Position.NONE : target.position();
    Map<String, Integer> counts = new TreeMap<>();
    application
        .tasks()
        .keySet()
        .forEach(task -> counts.merge(subtopology(task), task.partition() + 1, Math::max));
    List<Member> members =
        application.processes().stream().map(process -> member(process, counts)).toList();
    Repair.Plan plan =
        Repair.repair(
            target == null ? null : asPartitions(target, application),
            lead,
            members,
            counts,
            new Claims(members),
            last.under(position),
            (member, partition) -> false);
    Map<TopicPartition, Process> owners = new HashMap<>();
    for (Process process : application.processes()) {
      plan.assignment().get(memberId(process)).forEach(p -> owners.put(p, process));
    }
    Map<TaskId, Process> active = new TreeMap<>();
    for (TaskId task : application.tasks().keySet()) {
      active.put(task, owners.get(asPartition(task)));
    }
    Map<TaskId, List<Process>> standby = new HashMap<>();
    Map<TaskId, List<Process>> warmup = new HashMap<>();
    if (target != null) {
      copies(target, application, standby, warmup);
    }
    return new Wanted(
        active, standby, warmup, plan.exact(), Intent.of(position, plan.assignment()));
  }

  /** The placement of another assignor; it must name each task and only live processes. */
  static Wanted of(TaskAssignment assignment, Application application) {
    Map<ProcessId, Process> processes = application.byId();
    Map<TaskId, Process> active = new TreeMap<>();
    Map<TaskId, List<Process>> standby = new HashMap<>();
    for (KafkaStreamsAssignment share : assignment.assignment()) {
      Process process = processes.get(share.processId());
      for (AssignedTask task : share.tasks().values()) {
        if (task.type() == AssignedTask.Type.ACTIVE) {
          active.put(task.id(), process);
        } else {
          standby.computeIfAbsent(task.id(), id -> new ArrayList<>()).add(process);
        }
      }
    }
    if (!active.keySet().equals(application.tasks().keySet()) || active.containsValue(null)) {
      throw new IllegalStateException("a task without a process, or a process that is gone");
    }
    return new Wanted(active, standby, Map.of(), true, Intent.NONE);
  }

  private static void copies(
      Target target,
      Application application,
      Map<TaskId, List<Process>> standby,
      Map<TaskId, List<Process>> warmup) {
    Map<String, TaskId> ids = new HashMap<>();
    application.tasks().keySet().forEach(task -> ids.put(task.toString(), task));
    for (Process process : application.processes()) {
      TaskShare share = target.tasks().get(process.stableId());
      if (share != null) {
        add(share.standby(), process, ids, standby);
        add(share.warmup(), process, ids, warmup);
      }
    }
  }

  private static void add(
      List<String> names,
      Process process,
      Map<String, TaskId> ids,
      Map<TaskId, List<Process>> copies) {
    for (String name : names) {
      if (ids.containsKey(name)) {
        copies.computeIfAbsent(ids.get(name), id -> new ArrayList<>()).add(process);
      }
    }
  }

  private static Member member(Process process, Map<String, Integer> subtopologies) {
    return new Member(
        memberId(process),
        process.stableId(),
        subtopologies.keySet(),
        process.previousActive().stream().map(Wanted::asPartition).toList(),
        0,
        process.state().rackId().orElse(null));
  }

  private static String memberId(Process process) {
    return process.id().id().toString();
  }

  private static String subtopology(TaskId task) {
    String name = task.toString();
    return name.substring(0, name.lastIndexOf('_'));
  }

  private static TopicPartition asPartition(TaskId task) {
    return new TopicPartition(subtopology(task), task.partition());
  }

  /** The same target with tasks for partitions, their input's weight, and threads for capacity. */
  private static Target asPartitions(Target target, Application application) {
    Map<String, Map<String, int[]>> assignment = new HashMap<>();
    Map<String, TaskId> ids = new HashMap<>();
    application.tasks().keySet().forEach(task -> ids.put(task.toString(), task));
    target
        .tasks()
        .forEach(
            (stableId, share) -> {
              Map<String, int[]> topics = new HashMap<>();
              for (String name : share.active()) {
                if (ids.containsKey(name)) {
                  TopicPartition partition = asPartition(ids.get(name));
                  topics.merge(
                      partition.topic(), new int[] {partition.partition()}, Wanted::concat);
                }
              }
              assignment.put(stableId, topics);
            });
    Map<String, Double> capacity = new HashMap<>();
    application
        .processes()
        .forEach(process -> capacity.put(process.stableId(), (double) process.threads()));
    return new Target(
        target.position(),
        target.planId(),
        target.createdMs(),
        target.ttlMs(),
        target.mode(),
        target.members(),
        assignment,
        weights(target, application),
        target.capacity().isEmpty() ? capacity : target.capacity(),
        Map.of());
  }

  private static int[] concat(int[] a, int[] b) {
    int[] both = Arrays.copyOf(a, a.length + b.length);
    System.arraycopy(b, 0, both, a.length, b.length);
    return both;
  }

  private static Map<String, double[]> weights(Target target, Application application) {
    Map<String, double[]> weights = new HashMap<>();
    if (target.weights().isEmpty()) {
      return weights;
    }
    application
        .tasks()
        .forEach(
            (task, info) -> {
              double weight = 0;
              for (TaskTopicPartition input : info.topicPartitions()) {
                double[] known = target.weights().get(input.topicPartition().topic());
                int partition = input.topicPartition().partition();
                if (input.isSource() && known != null && partition < known.length) {
                  weight += known[partition];
                }
              }
              double[] row = weights.getOrDefault(subtopology(task), new double[0]);
              row = Arrays.copyOf(row, Math.max(row.length, task.partition() + 1));
              row[task.partition()] = weight;
              weights.put(subtopology(task), row);
            });
    return weights;
  }
}
