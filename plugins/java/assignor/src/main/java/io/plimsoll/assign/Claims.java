package io.plimsoll.assign;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * Who says that they hold what, and the cooperative rule that follows from it.
 *
 * <p>The rule: a partition that anyone still claims goes, this round, to its rightful claimant or
 * to nobody; the others give it up, rejoin, and the next round places it. The rightful claimant is
 * the one with the highest generation; two of the same generation are both wrong. Under the eager
 * protocol nobody claims anything and the rule withholds nothing. Kafka checks the rule after every
 * assignor except its own cooperative-sticky, and kills the round if it is broken.
 */
public final class Claims {
  private final Map<TopicPartition, String> owners = new HashMap<>();
  private final Set<TopicPartition> claimed = new HashSet<>();

  public Claims(Collection<Member> members) {
    Map<TopicPartition, Integer> generations = new HashMap<>();
    for (Member member : members) {
      for (TopicPartition partition : new HashSet<>(member.owned())) {
        claimed.add(partition);
        int newest = generations.getOrDefault(partition, Integer.MIN_VALUE);
        if (member.generation() > newest) {
          generations.put(partition, member.generation());
          owners.put(partition, member.id());
        } else if (member.generation() == newest) {
          owners.remove(partition);
        }
      }
    }
  }

  /** The member id of the rightful claimant, or null. */
  public String owner(TopicPartition partition) {
    return owners.get(partition);
  }

  /** The same assignment without what the rule does not allow yet. */
  public Map<String, List<TopicPartition>> withhold(Map<String, List<TopicPartition>> wanted) {
    Map<String, List<TopicPartition>> allowed = new HashMap<>();
    wanted.forEach(
        (member, partitions) -> {
          List<TopicPartition> kept = new ArrayList<>(partitions.size());
          for (TopicPartition partition : partitions) {
            if (!claimed.contains(partition) || member.equals(owners.get(partition))) {
              kept.add(partition);
            }
          }
          allowed.put(member, kept);
        });
    return allowed;
  }
}
