package io.plimsoll.assign;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The assignor that the group runs with while there is no target to follow.
 *
 * <p>It sees the group as if it had been configured itself: its own userData, and no nudge member.
 * Its userData in assignments is dropped, for an assignment with userData would block the group's
 * online upgrade to the consumer protocol.
 */
public final class Fallback {
  private static final Logger LOG = LoggerFactory.getLogger(Fallback.class);

  private final ConsumerPartitionAssignor delegate;

  /**
   * @param assignor a class, or the name of one, that implements {@link ConsumerPartitionAssignor}
   * @throws ConfigException if it cannot be made: this stops the consumer from being built
   */
  public Fallback(String key, Object assignor, Map<String, ?> config) {
    try {
      delegate =
          assignor instanceof Class<?> type
              ? Utils.newInstance(type.asSubclass(ConsumerPartitionAssignor.class))
              : Utils.newInstance(String.valueOf(assignor), ConsumerPartitionAssignor.class);
    } catch (ClassNotFoundException | ClassCastException e) {
      throw new ConfigException(key, assignor, "no such partition assignor");
    }
    if (delegate instanceof Configurable configurable) {
      configurable.configure(config);
    }
  }

  public String name() {
    return delegate.name();
  }

  public ByteBuffer subscriptionUserData(Set<String> topics) {
    return delegate.subscriptionUserData(topics);
  }

  public void onAssignment(List<TopicPartition> partitions, ConsumerGroupMetadata metadata) {
    try {
      delegate.onAssignment(new Assignment(partitions), metadata);
    } catch (RuntimeException e) {
      LOG.warn("The fallback assignor {} failed on an assignment", name(), e);
    }
  }

  /**
   * The delegate's assignment, with an entry for every member. May throw what the delegate does.
   */
  Map<String, List<TopicPartition>> assign(
      Cluster cluster, Map<String, Subscription> subscriptions) {
    Map<String, Subscription> own = new HashMap<>();
    subscriptions.forEach((member, subscription) -> own.put(member, unwrap(subscription)));
    Map<String, Assignment> assigned =
        delegate.assign(cluster, new GroupSubscription(own)).groupAssignment();
    Map<String, List<TopicPartition>> result = new HashMap<>();
    for (String member : subscriptions.keySet()) {
      Assignment assignment = assigned.get(member);
      result.put(member, assignment == null ? List.of() : assignment.partitions());
    }
    return result;
  }

  private static Subscription unwrap(Subscription subscription) {
    Subscription own =
        new Subscription(
            subscription.topics(),
            SubscriptionData.decode(subscription.userData()).fallback(),
            subscription.ownedPartitions(),
            subscription.generationId().orElse(-1),
            subscription.rackId());
    own.setGroupInstanceId(subscription.groupInstanceId());
    return own;
  }
}
