package io.plimsoll;

import io.plimsoll.assign.Fallback;
import io.plimsoll.assign.Intent;
import io.plimsoll.assign.Round;
import io.plimsoll.assign.Round.Outcome;
import io.plimsoll.assign.SubscriptionData;
import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import io.plimsoll.control.TargetReader;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes a consumer group follow the targets of the Plimsoll agent.
 *
 * <p>Set it as {@code partition.assignment.strategy}; the application's code does not change. Until
 * the agent publishes a target for the group in mode {@code enforce}, the group behaves as with the
 * assignor that {@value #FALLBACK_CONFIG} names.
 *
 * <p>Promises: {@link #assign} does no I/O and never throws; any bytes on the control topic, or
 * none, or no control topic, lead to a legal assignment; building the consumer is not delayed;
 * assignments carry no userData. It supports both the cooperative and the eager protocol.
 */
public final class PlimsollAssignor implements ConsumerPartitionAssignor, Configurable {
  /** The protocol name; the agent's nudge member joins with the same. */
  public static final String NAME = "plimsoll";

  /** Assignor class for as long as there is no target to follow. Default: cooperative-sticky. */
  public static final String FALLBACK_CONFIG = "plimsoll.fallback";

  /** Name of the control topic. Default: {@value #TARGETS_TOPIC_DEFAULT}. */
  public static final String TARGETS_TOPIC_CONFIG = "plimsoll.targets.topic";

  public static final String TARGETS_TOPIC_DEFAULT = "plimsoll.targets";

  /** Where the control topic lives, if not on the consumer's own cluster. */
  public static final String BOOTSTRAP_SERVERS_CONFIG = "plimsoll.bootstrap.servers";

  private static final Logger LOG = LoggerFactory.getLogger(PlimsollAssignor.class);

  private String group;
  private Fallback fallback;
  private TargetReader reader;
  private AssignorStats stats;
  private Intent intent = Intent.NONE;

  @Override
  public void configure(Map<String, ?> configs) {
    Object groupId = configs.get(ConsumerConfig.GROUP_ID_CONFIG);
    if (groupId == null) {
      return; // A consumer without a group is configured all the same, and never asks us.
    }
    group = groupId.toString();
    Object fallbackClass = value(configs, FALLBACK_CONFIG, CooperativeStickyAssignor.class);
    if (fallbackClass == PlimsollAssignor.class
        || PlimsollAssignor.class.getName().equals(fallbackClass)) {
      throw new ConfigException(FALLBACK_CONFIG, fallbackClass, "it cannot fall back to itself");
    }
    fallback = new Fallback(FALLBACK_CONFIG, fallbackClass, configs);
    reader =
        TargetReader.shared(
            value(
                configs,
                BOOTSTRAP_SERVERS_CONFIG,
                configs.get(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG)),
            value(configs, TARGETS_TOPIC_CONFIG, TARGETS_TOPIC_DEFAULT).toString(),
            configs);
    reader.watch(group);
    stats = AssignorStats.shared(group);
  }

  private static Object value(Map<String, ?> configs, String key, Object defaultValue) {
    Object value = configs.get(key);
    return value == null ? defaultValue : value;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public List<RebalanceProtocol> supportedProtocols() {
    return List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER);
  }

  @Override
  public ByteBuffer subscriptionUserData(Set<String> topics) {
    Position known = reader.target(group).map(Target::position).orElse(Position.NONE);
    return new SubscriptionData(known, false, fallback.subscriptionUserData(topics)).encode();
  }

  @Override
  public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
    fallback.onAssignment(assignment.partitions(), metadata);
  }

  @Override
  public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
    long startNanos = System.nanoTime();
    Target target = reader.target(group).orElse(null);
    Outcome outcome =
        new Round(metadata, groupSubscription.groupSubscription(), target, fallback, intent)
            .decide();
    intent = outcome.intent();
    Map<String, Assignment> assignments = new HashMap<>();
    outcome
        .assignment()
        .forEach((member, partitions) -> assignments.put(member, new Assignment(partitions)));
    long micros = (System.nanoTime() - startNanos) / 1_000;
    stats.count(outcome, micros);
    log(outcome, target, micros);
    return new GroupAssignment(assignments);
  }

  private void log(Outcome outcome, Target target, long micros) {
    LOG.info(
        "assign group={} how={} reason={} epoch={} revision={} plan={} expired={} members={}"
            + " partitions={} moved={} held={} micros={}",
        group,
        outcome.how().name().toLowerCase(Locale.ROOT),
        outcome.reason().name().toLowerCase(Locale.ROOT).replace('_', '-'),
        outcome.position().epoch(),
        outcome.position().revision(),
        target == null ? "" : target.planId(),
        target != null && target.isExpired(System.currentTimeMillis()),
        outcome.members(),
        outcome.partitions(),
        outcome.moved(),
        outcome.held(),
        micros);
  }
}
