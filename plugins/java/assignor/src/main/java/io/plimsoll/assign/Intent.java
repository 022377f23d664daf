package io.plimsoll.assign;

import io.plimsoll.control.Position;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Where the last round wanted each partition to go.
 *
 * <p>A partition that changes owner belongs to nobody between the round in which it is given up and
 * the next one. The leader remembers what for, so that the second round finishes the first instead
 * of thinking afresh. It is a hint: a leader without it assigns legally, and merely may move more.
 *
 * @param position the target that the round followed; the intent is void with any other
 * @param owners partitions to member ids
 */
public record Intent(Position position, Map<TopicPartition, String> owners) {
  public static final Intent NONE = new Intent(Position.NONE, Map.of());

  public static Intent of(Position position, Map<String, List<TopicPartition>> wanted) {
    Map<TopicPartition, String> owners = new HashMap<>();
    wanted.forEach((member, partitions) -> partitions.forEach(p -> owners.put(p, member)));
    return new Intent(position, owners);
  }

  /** This intent, if it was made for the same target. */
  public Intent under(Position current) {
    return position.equals(current) ? this : NONE;
  }
}
