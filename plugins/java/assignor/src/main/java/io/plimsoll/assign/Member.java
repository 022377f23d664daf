package io.plimsoll.assign;

import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.TopicPartition;

/**
 * One live member as the group's leader sees it.
 *
 * @param id the member id that the coordinator gave, new at every start
 * @param stableId the name by which targets know it
 * @param owned what it claims to hold; empty under the eager protocol
 * @param generation the generation of that claim, -1 if unknown
 * @param rack its {@code client.rack}, or null
 */
public record Member(
    String id,
    String stableId,
    Set<String> topics,
    List<TopicPartition> owned,
    int generation,
    String rack) {

  /** The coordinator appends this to the client id to make a member id. */
  private static final Pattern SUFFIX =
      Pattern.compile("-[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$");

  public static Member of(String id, Subscription subscription) {
    return new Member(
        id,
        subscription.groupInstanceId().orElseGet(() -> clientId(id)),
        Set.copyOf(subscription.topics()),
        List.copyOf(subscription.ownedPartitions()),
        subscription.generationId().orElse(-1),
        subscription.rackId().orElse(null));
  }

  /** The client id in a member id; the whole member id where it has no such part. */
  static String clientId(String memberId) {
    return SUFFIX.matcher(memberId).replaceFirst("");
  }
}
