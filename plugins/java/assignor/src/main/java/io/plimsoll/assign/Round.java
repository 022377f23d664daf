package io.plimsoll.assign;

import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One round of one group: from what the leader sees to what everyone gets.
 *
 * <p>A ladder of three rungs: the target, repaired for the members that are there; without one to
 * follow, the fallback assignor; and should that fail, a sticky assignment by count. Each rung's
 * result passes the cooperative rule. It never throws.
 */
public final class Round {
  private static final Logger LOG = LoggerFactory.getLogger(Round.class);

  /** Which rung decided. */
  public enum How {
    TARGET,
    REPAIRED,
    FALLBACK
  }

  /** Why it was not simply the target. */
  public enum Reason {
    NONE,
    /** Members came or went since the target was made, or it leaves partitions out. */
    MEMBERSHIP,
    /** A member knows a newer target than this leader: nothing moves until it is here too. */
    BEHIND,
    NO_TARGET,
    NOT_ENFORCED,
    AMBIGUOUS_MEMBERS,
    ERROR
  }

  /**
   * @param assignment member id to partitions; every member has an entry, the nudge an empty one
   * @param position of the target at hand, followed or not
   * @param moved partitions that their rightful, subscribed claimant does not get
   * @param held partitions that nobody gets before the next round
   * @param intent for the next round's sake
   */
  public record Outcome(
      Map<String, List<TopicPartition>> assignment,
      How how,
      Reason reason,
      Position position,
      int members,
      int partitions,
      int moved,
      int held,
      Intent intent) {}

  private record Choice(Map<String, List<TopicPartition>> wanted, How how, Reason reason) {}

  private final Cluster cluster;
  private final Target target;
  private final Fallback fallback;
  private final Intent last;
  private final Map<String, Subscription> subscriptions = new TreeMap<>();
  private final Set<String> nudges = new HashSet<>();
  private final List<Member> members = new ArrayList<>();
  private final Claims claims;

  /** The newest target that anyone in the group knows. */
  private final Position witnessed;

  /**
   * @param target the newest that this process knows, or null
   * @param last the intent of the round before, if this process led it
   */
  public Round(
      Cluster cluster,
      Map<String, Subscription> group,
      Target target,
      Fallback fallback,
      Intent last) {
    this.cluster = cluster;
    this.target = target;
    this.fallback = fallback;
    this.last = last;
    Position newest = Position.NONE;
    for (Map.Entry<String, Subscription> entry : group.entrySet()) {
      Position known = SubscriptionData.decode(entry.getValue().userData()).position();
      newest = known.isAfter(newest) ? known : newest;
      if (SubscriptionData.isNudge(entry.getValue())) {
        nudges.add(entry.getKey());
      } else {
        subscriptions.put(entry.getKey(), entry.getValue());
      }
    }
    witnessed = newest;
    subscriptions.forEach((id, subscription) -> members.add(Member.of(id, subscription)));
    claims = new Claims(members);
  }

  public Outcome decide() {
    Choice choice = choose();
    Map<String, List<TopicPartition>> assignment = claims.withhold(choice.wanted());
    nudges.forEach(nudge -> assignment.put(nudge, List.of()));
    int given = assignment.values().stream().mapToInt(List::size).sum();
    int all = partitionCounts().values().stream().mapToInt(Integer::intValue).sum();
    return new Outcome(
        assignment,
        choice.how(),
        choice.reason(),
        position(),
        members.size(),
        all,
        moved(assignment),
        all - given,
        choice.how() == How.FALLBACK ? Intent.NONE : Intent.of(position(), choice.wanted()));
  }

  private Choice choose() {
    Reason reason = reasonForFallback();
    try {
      if (witnessed.isAfter(position()) && reason != Reason.AMBIGUOUS_MEMBERS) {
        return new Choice(repair(target, Lead.OWNERS).assignment(), How.REPAIRED, Reason.BEHIND);
      }
      if (reason == Reason.NONE) {
        Repair.Plan plan = repair(target, Lead.TARGET);
        return plan.exact()
            ? new Choice(plan.assignment(), How.TARGET, Reason.NONE)
            : new Choice(plan.assignment(), How.REPAIRED, Reason.MEMBERSHIP);
      }
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("Could not follow {}; using {}", position(), fallback.name(), e);
      reason = Reason.ERROR;
    }
    try {
      return new Choice(fallback.assign(cluster, subscriptions), How.FALLBACK, reason);
    } catch (RuntimeException | LinkageError | StackOverflowError e) {
      LOG.error("The fallback assignor {} failed; assigning by count", fallback.name(), e);
      return new Choice(repair(null, Lead.TARGET).assignment(), How.FALLBACK, Reason.ERROR);
    }
  }

  private Reason reasonForFallback() {
    Set<String> stableIds = new HashSet<>();
    members.forEach(member -> stableIds.add(member.stableId()));
    if (stableIds.size() < members.size()) {
      return Reason.AMBIGUOUS_MEMBERS;
    }
    if (target == null) {
      return Reason.NO_TARGET;
    }
    return target.isEnforced() ? Reason.NONE : Reason.NOT_ENFORCED;
  }

  private Position position() {
    return target == null ? Position.NONE : target.position();
  }

  private Repair.Plan repair(Target from, Lead lead) {
    return Repair.repair(
        from, lead, members, partitionCounts(), claims, last.under(position()), this::isLocal);
  }

  private Map<String, Integer> partitionCounts() {
    Map<String, Integer> counts = new HashMap<>();
    for (Member member : members) {
      for (String topic : member.topics()) {
        Integer count = cluster.partitionCountForTopic(topic);
        if (count != null && count > 0) {
          counts.put(topic, count);
        }
      }
    }
    return counts;
  }

  private boolean isLocal(Member member, TopicPartition partition) {
    PartitionInfo info = cluster.partition(partition);
    if (member.rack() == null || info == null) {
      return false;
    }
    for (Node replica : info.replicas()) {
      if (replica != null && member.rack().equals(replica.rack())) {
        return true;
      }
    }
    return false;
  }

  private int moved(Map<String, List<TopicPartition>> assignment) {
    int moved = 0;
    for (Member member : members) {
      Set<TopicPartition> kept = new HashSet<>(assignment.get(member.id()));
      moved += (int) lost(member, kept);
    }
    return moved;
  }

  private long lost(Member member, Collection<TopicPartition> kept) {
    return member.owned().stream()
        .filter(partition -> member.id().equals(claims.owner(partition)))
        .filter(partition -> member.topics().contains(partition.topic()))
        .filter(partition -> !kept.contains(partition))
        .count();
  }
}
