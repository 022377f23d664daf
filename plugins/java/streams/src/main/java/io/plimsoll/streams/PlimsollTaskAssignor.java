package io.plimsoll.streams;

import io.plimsoll.PlimsollAssignor;
import io.plimsoll.assign.Intent;
import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import io.plimsoll.control.TargetReader;
import io.plimsoll.streams.NextStep.Placement;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes a Kafka Streams application follow the targets of the Plimsoll agent (KIP-924).
 *
 * <p>Set it as {@code task.assignor.class}; the application's code does not change. Without a
 * target in mode {@code enforce} it wants what Kafka's public sticky, rack-aware assignor wants.
 * Either way a stateful task moves only to a process that has caught up ({@link NextStep}).
 *
 * <p>Promises: {@link #assign} does no I/O and any bytes on the control topic, or none, lead to a
 * valid assignment. It publishes the application's state in the background, and asks for the next
 * rebalance by the follow-up deadline ({@link Memory}).
 */
public final class PlimsollTaskAssignor implements TaskAssignor {
  /** Name of the topic for the application's state. */
  public static final String MEMBERSHIP_TOPIC_CONFIG = "plimsoll.membership.topic";

  public static final String MEMBERSHIP_TOPIC_DEFAULT = "plimsoll.membership";

  private static final Logger LOG = LoggerFactory.getLogger(PlimsollTaskAssignor.class);

  /** What was decided, and why it was not simply the target. */
  private record Decision(Wanted wanted, String how, String reason) {}

  private String applicationId;
  private TargetReader reader;
  private StatePublisher publisher;

  @Override
  public void configure(Map<String, ?> configs) {
    applicationId = configs.get(StreamsConfig.APPLICATION_ID_CONFIG).toString();
    Object servers =
        value(
            configs,
            PlimsollAssignor.BOOTSTRAP_SERVERS_CONFIG,
            configs.get(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG));
    reader =
        TargetReader.shared(
            servers,
            value(
                    configs,
                    PlimsollAssignor.TARGETS_TOPIC_CONFIG,
                    PlimsollAssignor.TARGETS_TOPIC_DEFAULT)
                .toString(),
            configs);
    reader.watch(applicationId);
    publisher =
        StatePublisher.shared(
            servers,
            value(configs, MEMBERSHIP_TOPIC_CONFIG, MEMBERSHIP_TOPIC_DEFAULT).toString(),
            configs);
  }

  private static Object value(Map<String, ?> configs, String key, Object defaultValue) {
    Object value = configs.get(key);
    return value == null ? defaultValue : value;
  }

  @Override
  public TaskAssignment assign(ApplicationState state) {
    long startNanos = System.nanoTime();
    long nowMs = System.currentTimeMillis();
    Application application = Application.of(state);
    Target target = reader.target(applicationId).orElse(null);
    Memory memory = Memory.of(applicationId);
    Decision decision = decide(state, application, target, memory.intent());
    memory.remember(decision.wanted().intent());
    Placement placement = NextStep.towards(decision.wanted(), application);
    long followupMs =
        memory.followupMs(
            outcome(placement, decision, target),
            application.configs().probingRebalanceIntervalMs());
    publisher.publish(
        applicationId, () -> StateRecord.encode(applicationId, nowMs, application, placement));
    LOG.info(
        "assign application={} how={} reason={} epoch={} revision={} plan={} expired={}"
            + " processes={} tasks={} moved={} warmups={} complete={} followup_ms={} micros={}",
        applicationId,
        decision.how(),
        decision.reason(),
        position(target).epoch(),
        position(target).revision(),
        target == null ? "" : target.planId(),
        target != null && target.isExpired(nowMs),
        application.processes().size(),
        application.tasks().size(),
        moved(placement, application),
        placement.warmups(),
        placement.complete(),
        followupMs,
        (System.nanoTime() - startNanos) / 1_000);
    return assignment(placement, application, Instant.ofEpochMilli(nowMs + followupMs));
  }

  private Decision decide(
      ApplicationState state, Application application, Target target, Intent last) {
    String reason = "error";
    try {
      if (application.byStableId().isEmpty()) {
        reason = "ambiguous-members";
      } else if (target == null) {
        reason = "no-target";
        if (!reader.isSettled(applicationId) && !application.isNew()) {
          // This leader is new, and its reader has not read yet: disturb nothing until it has.
          return new Decision(
              Wanted.of(null, Lead.OWNERS, application, last), "repaired", "starting");
        }
      } else if (!target.isEnforced()) {
        reason = "not-enforced";
      } else {
        Wanted wanted = Wanted.of(target, Lead.TARGET, application, last);
        return wanted.exact()
            ? new Decision(wanted, "target", "none")
            : new Decision(wanted, "repaired", "membership");
      }
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("Could not follow {}", position(target), e);
    }
    return fallback(state, application, reason);
  }

  private Decision fallback(ApplicationState state, Application application, String reason) {
    try {
      return new Decision(
          Wanted.of(new StickyTaskAssignor().assign(state), application), "fallback", reason);
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("The sticky assignor failed; owners keep their tasks", e);
      return new Decision(
          Wanted.of(null, Lead.TARGET, application, Intent.NONE), "fallback", "error");
    }
  }

  private static Position position(Target target) {
    return target == null ? Position.NONE : target.position();
  }

  /** Equal to the last one if nothing changed: then there is less reason to look again soon. */
  private static Object outcome(Placement placement, Decision decision, Target target) {
    Map<String, String> active = new HashMap<>();
    placement.active().forEach((task, process) -> active.put(task.toString(), process.stableId()));
    Map<String, Set<String>> copies = new HashMap<>();
    placement
        .copies()
        .forEach(
            (task, processes) ->
                processes.forEach(
                    process ->
                        copies
                            .computeIfAbsent(task.toString(), id -> new HashSet<>())
                            .add(process.stableId())));
    return List.of(active, copies, decision.how(), decision.reason(), position(target));
  }

  private static long moved(Placement placement, Application application) {
    Map<TaskId, Process> previous = application.previousOwners();
    return placement.active().entrySet().stream()
        .filter(
            e -> previous.containsKey(e.getKey()) && !previous.get(e.getKey()).equals(e.getValue()))
        .count();
  }

  private static TaskAssignment assignment(
      Placement placement, Application application, Instant followup) {
    Map<ProcessId, Set<AssignedTask>> tasks = new HashMap<>();
    application.processes().forEach(process -> tasks.put(process.id(), new HashSet<>()));
    placement
        .active()
        .forEach(
            (task, process) ->
                tasks.get(process.id()).add(new AssignedTask(task, AssignedTask.Type.ACTIVE)));
    placement
        .copies()
        .forEach(
            (task, processes) ->
                processes.forEach(
                    process ->
                        tasks
                            .get(process.id())
                            .add(new AssignedTask(task, AssignedTask.Type.STANDBY))));
    List<KafkaStreamsAssignment> assignment = new ArrayList<>();
    for (Process process : application.processes()) {
      KafkaStreamsAssignment share =
          KafkaStreamsAssignment.of(process.id(), tasks.get(process.id()));
      // One process carries the deadline: if it goes, its going is a rebalance.
      assignment.add(assignment.isEmpty() ? share.withFollowupRebalance(followup) : share);
    }
    return new TaskAssignment(assignment);
  }
}
