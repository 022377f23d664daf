package io.plimsoll.assign;

import io.plimsoll.control.Target;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiPredicate;
import java.util.function.Function;
import org.apache.kafka.common.TopicPartition;

/**
 * The total function at the edge: from any target, or none, and the members that are really there,
 * to a legal assignment.
 *
 * <p>Promises: every partition of a subscribed topic has exactly one owner, who is live and
 * subscribed (S1 to S3); members that the target names get what it gives them; nothing moves
 * without a reason below; the result does not depend on the order of anything. It does no I/O,
 * knows no clock, and knows nothing of the cooperative rule: it says who should own, {@link Claims}
 * what may be handed out now.
 *
 * <p>What the target does not settle:
 *
 * <ol>
 *   <li>A partition that it does not give to a live, subscribed member stays with its owner, else
 *       goes, largest first, to the member that it loads least; within {@link #TOLERANCE} to one in
 *       the rack of a replica.
 *   <li>A member that the target does not name (a <em>guest</em>: it joined later) keeps what it
 *       holds as far as that is level, and is filled from the most loaded members until it is
 *       within {@link #TOLERANCE} of them. Each such move lowers the higher of the two
 *       utilisations, so repeated rounds cannot cycle.
 * </ol>
 *
 * <p>Unknown weights count as the mean of their topic, unknown capacities as the mean of the known
 * ones. A partition weighs at least a thousandth of the mean, so that idle partitions spread too.
 */
public final class Repair {
  /** Utilisations this close are level: the agent's own default for {@code imbalance_solve}. */
  static final double TOLERANCE = 0.05;

  private static final double WEIGHT_FLOOR = 1e-3;
  private static final double CAPACITY_FLOOR = 1e-9;
  private static final int NOBODY = -1;

  /** Levelling ends by itself, mostly after two passes; the bound is against rounding errors. */
  private static final int PASSES_MAX = 10;

  /** What leads when target and present owners disagree. */
  public enum Lead {
    /** The target: its moves are made. */
    TARGET,
    /** The owners: nothing moves, the target's weights only help to place what nobody owns. */
    OWNERS
  }

  /**
   * @param assignment member id to partitions in order; every member has an entry
   * @param exact whether it is the target, to the letter
   */
  public record Plan(Map<String, List<TopicPartition>> assignment, boolean exact) {}

  private final List<Member> members;
  private final List<TopicPartition> partitions = new ArrayList<>();
  private final BiPredicate<Member, TopicPartition> local;

  private final boolean[][] subscribed; // [member][topic]
  private final int[] topicOf;
  private final double[] weight;
  private final int[] owner;
  private final int[] wanted;
  private final int[] intended;
  private final int[] holder;
  private final double[] capacity;
  private final boolean[] guest;
  private final double[] load;

  private Repair(
      Target target,
      Collection<Member> live,
      Map<String, Integer> partitionCounts,
      Claims claims,
      Intent intent,
      BiPredicate<Member, TopicPartition> local) {
    members = new ArrayList<>(live);
    members.sort(Comparator.comparing(Member::stableId).thenComparing(Member::id));
    this.local = local;
    int count = members.size();

    Set<String> topicSet = new TreeSet<>();
    members.forEach(member -> topicSet.addAll(member.topics()));
    topicSet.retainAll(partitionCounts.keySet());
    List<String> topics = List.copyOf(topicSet);
    List<Integer> topicIndexes = new ArrayList<>();
    for (int t = 0; t < topics.size(); t++) {
      for (int p = 0; p < partitionCounts.get(topics.get(t)); p++) {
        partitions.add(new TopicPartition(topics.get(t), p));
        topicIndexes.add(t);
      }
    }
    topicOf = topicIndexes.stream().mapToInt(Integer::intValue).toArray();
    subscribed = new boolean[count][topics.size()];
    for (int m = 0; m < count; m++) {
      for (int t = 0; t < topics.size(); t++) {
        subscribed[m][t] = members.get(m).topics().contains(topics.get(t));
      }
    }

    weight = weights(target, topics, partitionCounts);
    capacity = capacities(target);
    guest = new boolean[count];
    for (int m = 0; m < count; m++) {
      guest[m] = target == null || !target.members().contains(members.get(m).stableId());
    }
    owner = indexes(claims::owner);
    intended = indexes(intent.owners()::get);
    wanted = wanted(target);
    holder = new int[partitions.size()];
    load = new double[count];
  }

  /**
   * Places every partition of every subscribed topic.
   *
   * @param target the target to follow, or null
   * @param partitionCounts partitions of each topic that exists; others are left out
   * @param intent where the last round under this target wanted partitions that nobody holds now
   * @param local whether a replica of the partition is in the member's rack
   */
  public static Plan repair(
      Target target,
      Lead lead,
      Collection<Member> live,
      Map<String, Integer> partitionCounts,
      Claims claims,
      Intent intent,
      BiPredicate<Member, TopicPartition> local) {
    Repair repair = new Repair(target, live, partitionCounts, claims, intent, local);
    repair.start(lead);
    repair.placeOrphans();
    if (lead == Lead.TARGET) {
      boolean moved = true;
      for (int pass = 0; moved && pass < PASSES_MAX; pass++) {
        moved = repair.returnExcessOfGuests() | repair.fillGuests();
      }
    }
    return repair.plan();
  }

  private void start(Lead lead) {
    for (int p = 0; p < holder.length; p++) {
      int current = owner[p] == NOBODY ? intended[p] : owner[p];
      boolean currentLeads = lead == Lead.OWNERS || wanted[p] == NOBODY;
      boolean guestHolds = current != NOBODY && guest[current];
      hold(p, current != NOBODY && (currentLeads || guestHolds) ? current : wanted[p]);
    }
  }

  private void hold(int p, int member) {
    holder[p] = member;
    if (member != NOBODY) {
      load[member] += weight[p];
    }
  }

  private void move(int p, int to) {
    load[holder[p]] -= weight[p];
    hold(p, to);
  }

  private double utilisation(int member) {
    return load[member] / capacity[member];
  }

  private double utilisationWith(int member, int p) {
    return (load[member] + weight[p]) / capacity[member];
  }

  private boolean canTake(int member, int p) {
    return subscribed[member][topicOf[p]];
  }

  private void placeOrphans() {
    List<Integer> orphans = new ArrayList<>();
    for (int p = 0; p < holder.length; p++) {
      if (holder[p] == NOBODY) {
        orphans.add(p);
      }
    }
    orphans.sort(largestFirst());
    for (int p : orphans) {
      hold(p, leastLoadedBy(p));
    }
  }

  private Comparator<Integer> largestFirst() {
    return Comparator.<Integer>comparingDouble(p -> -weight[p]).thenComparing(p -> p);
  }

  private int leastLoadedBy(int p) {
    int best = NOBODY;
    double least = Double.POSITIVE_INFINITY;
    for (int m = 0; m < load.length; m++) {
      if (canTake(m, p) && (best == NOBODY || utilisationWith(m, p) < least)) {
        best = m;
        least = utilisationWith(m, p);
      }
    }
    if (best == NOBODY || local.test(members.get(best), partitions.get(p))) {
      return best;
    }
    int nearest = best;
    double leastNear = least * (1 + TOLERANCE);
    for (int m = 0; m < load.length; m++) {
      if (canTake(m, p)
          && utilisationWith(m, p) < leastNear
          && local.test(members.get(m), partitions.get(p))) {
        nearest = m;
        leastNear = utilisationWith(m, p);
      }
    }
    return nearest;
  }

  /** What a guest holds beyond its level share goes back to the member that the target names. */
  private boolean returnExcessOfGuests() {
    List<Integer> held = new ArrayList<>();
    for (int p = 0; p < holder.length; p++) {
      if (wanted[p] != NOBODY && holder[p] != wanted[p]) {
        held.add(p);
      }
    }
    held.sort(largestFirst());
    boolean any = false;
    for (int p : held) {
      if (utilisationWith(wanted[p], p) < utilisation(holder[p]) * (1 - TOLERANCE)) {
        move(p, wanted[p]);
        any = true;
      }
    }
    return any;
  }

  private boolean fillGuests() {
    List<List<Integer>> held = heldByMember();
    boolean any = false;
    boolean[] moved = new boolean[holder.length];
    boolean[] full = new boolean[load.length];
    for (int to = leastLoadedGuest(full); to != NOBODY; to = leastLoadedGuest(full)) {
      int p = partitionFor(to, held, moved);
      if (p == NOBODY) {
        full[to] = true;
      } else {
        held.get(holder[p]).remove((Integer) p);
        held.get(to).add(p);
        moved[p] = true;
        move(p, to);
        any = true;
      }
    }
    return any;
  }

  private List<List<Integer>> heldByMember() {
    List<List<Integer>> held = new ArrayList<>();
    for (int m = 0; m < load.length; m++) {
      held.add(new ArrayList<>());
    }
    for (int p = 0; p < holder.length; p++) {
      if (holder[p] != NOBODY) {
        held.get(holder[p]).add(p);
      }
    }
    return held;
  }

  private int leastLoadedGuest(boolean[] full) {
    int least = NOBODY;
    for (int m = 0; m < load.length; m++) {
      if (guest[m] && !full[m] && (least == NOBODY || utilisation(m) < utilisation(least))) {
        least = m;
      }
    }
    return least;
  }

  /**
   * The next partition that the guest should take over, from the most loaded member that has one.
   */
  private int partitionFor(int to, List<List<Integer>> held, boolean[] moved) {
    boolean[] asked = new boolean[load.length];
    asked[to] = true;
    while (true) {
      int from = NOBODY;
      for (int m = 0; m < load.length; m++) {
        if (!asked[m] && (from == NOBODY || utilisation(m) > utilisation(from))) {
          from = m;
        }
      }
      if (from == NOBODY || utilisation(from) * (1 - TOLERANCE) <= utilisation(to)) {
        return NOBODY;
      }
      asked[from] = true;
      int p = partitionFrom(from, to, held.get(from), moved);
      if (p != NOBODY) {
        return p;
      }
    }
  }

  /**
   * Rather one that the giver does not hold yet or any more, for that moves nothing; then the
   * largest that leaves the giver the more loaded of the two, else the smallest that still lowers
   * the higher utilisation.
   */
  private int partitionFrom(int from, int to, List<Integer> held, boolean[] moved) {
    double high = utilisation(from) * (1 - TOLERANCE);
    int best = NOBODY;
    for (int p : held) {
      if (!moved[p]
          && canTake(to, p)
          && utilisationWith(to, p) < high
          && (best == NOBODY || isBetterGift(p, best, from, to))) {
        best = p;
      }
    }
    return best;
  }

  private boolean isBetterGift(int p, int than, int from, int to) {
    boolean free = owner[p] != from;
    boolean fits = fits(p, from, to);
    if (free != (owner[than] != from)) {
      return free;
    }
    if (fits != fits(than, from, to)) {
      return fits;
    }
    if (weight[p] != weight[than]) {
      return fits == (weight[p] > weight[than]);
    }
    return p < than;
  }

  private boolean fits(int p, int from, int to) {
    return utilisationWith(to, p) <= (load[from] - weight[p]) / capacity[from];
  }

  private Plan plan() {
    Map<String, List<TopicPartition>> assignment = new TreeMap<>();
    members.forEach(member -> assignment.put(member.id(), new ArrayList<>()));
    boolean exact = true;
    for (int p = 0; p < holder.length; p++) {
      exact &= holder[p] == wanted[p];
      if (holder[p] != NOBODY) {
        assignment.get(members.get(holder[p]).id()).add(partitions.get(p));
      }
    }
    return new Plan(assignment, exact);
  }

  /** The index of the live, subscribed member that each partition is given by its member id. */
  private int[] indexes(Function<TopicPartition, String> memberOf) {
    Map<String, Integer> index = new HashMap<>();
    for (int m = 0; m < members.size(); m++) {
      index.put(members.get(m).id(), m);
    }
    int[] indexes = new int[partitions.size()];
    for (int p = 0; p < indexes.length; p++) {
      String id = memberOf.apply(partitions.get(p));
      int m = id == null ? NOBODY : index.getOrDefault(id, NOBODY);
      indexes[p] = m != NOBODY && canTake(m, p) ? m : NOBODY;
    }
    return indexes;
  }

  private int[] wanted(Target target) {
    int[] wanted = new int[partitions.size()];
    Arrays.fill(wanted, NOBODY);
    if (target == null) {
      return wanted;
    }
    Map<TopicPartition, Integer> index = new HashMap<>();
    for (int p = 0; p < partitions.size(); p++) {
      index.put(partitions.get(p), p);
    }
    Set<String> taken = new HashSet<>();
    for (int m = 0; m < members.size(); m++) {
      String stableId = members.get(m).stableId();
      Map<String, int[]> share = target.assignment().get(stableId);
      if (share == null || !taken.add(stableId)) {
        continue;
      }
      for (Map.Entry<String, int[]> topic : share.entrySet()) {
        for (int number : topic.getValue()) {
          Integer p = index.get(new TopicPartition(topic.getKey(), number));
          if (p != null && canTake(m, p)) {
            wanted[p] = m;
          }
        }
      }
    }
    return wanted;
  }

  private double[] weights(Target target, List<String> topics, Map<String, Integer> counts) {
    Map<String, double[]> known = target == null ? Map.of() : target.weights();
    double[] all =
        topics.stream()
            .filter(known::containsKey)
            .flatMapToDouble(topic -> Arrays.stream(known.get(topic)))
            .toArray();
    double mean = Arrays.stream(all).average().orElse(0);
    double usual = mean > 0 ? mean : 1;
    double[] weights = new double[partitions.size()];
    int p = 0;
    for (String topic : topics) {
      double[] ofTopic = known.getOrDefault(topic, new double[0]);
      double unknown = Arrays.stream(ofTopic).average().orElse(usual);
      for (int number = 0; number < counts.get(topic); number++) {
        double value = number < ofTopic.length ? ofTopic[number] : unknown;
        weights[p++] = Math.max(value, usual * WEIGHT_FLOOR);
      }
    }
    return weights;
  }

  private double[] capacities(Target target) {
    Map<String, Double> known = target == null ? Map.of() : target.capacity();
    double mean =
        new TreeMap<>(known).values().stream().mapToDouble(Double::doubleValue).average().orElse(1);
    return members.stream()
        .mapToDouble(member -> known.getOrDefault(member.stableId(), mean))
        .map(value -> Math.max(value, CAPACITY_FLOOR))
        .toArray();
  }
}
