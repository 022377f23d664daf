package io.plimsoll.assign;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.assign.Round.How;
import io.plimsoll.assign.Round.Outcome;
import io.plimsoll.assign.Round.Reason;
import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class RoundTest {
  private static final String UUID = "-01234567-89ab-cdef-0123-456789abcdef";
  private static final Fallback STICKY = fallback(CooperativeStickyAssignor.class);
  private static final Fallback RANGE = fallback(RangeAssignor.class);

  private static Fallback fallback(Class<? extends ConsumerPartitionAssignor> type) {
    return new Fallback("plimsoll.fallback", type, Map.of());
  }

  /** A group that lives through rounds as Kafka's coordinator would lead it. */
  private static final class Group {
    final Map<String, Integer> topics = new TreeMap<>(Map.of("t", 12, "u", 5));
    final Map<String, List<TopicPartition>> owned = new TreeMap<>();
    final Map<String, Position> known = new HashMap<>();
    final Map<String, Subscription> extra = new HashMap<>();
    boolean eager;
    int generation = 1;
    Outcome last;
    Intent intent = Intent.NONE;

    void join(String clientId) {
      owned.put(clientId + UUID, List.of());
    }

    Map<String, Subscription> subscriptions() {
      Map<String, Subscription> subscriptions = new HashMap<>(extra);
      owned.forEach(
          (id, partitions) ->
              subscriptions.put(
                  id,
                  new Subscription(
                      List.copyOf(topics.keySet()),
                      new SubscriptionData(known.getOrDefault(id, Position.NONE), false, null)
                          .encode(),
                      eager ? List.of() : partitions,
                      eager ? -1 : generation,
                      Optional.empty())));
      return subscriptions;
    }

    /** One round; returns whether anyone has to give something up and rejoin. */
    boolean round(Target target, Fallback fallback) {
      Map<String, Subscription> subscriptions = subscriptions();
      last = new Round(Scenario.cluster(topics), subscriptions, target, fallback, intent).decide();
      intent = last.intent();
      assertEquals(subscriptions.keySet(), last.assignment().keySet());
      assertCooperative(subscriptions, last.assignment());
      boolean again = false;
      for (String id : owned.keySet()) {
        again |= !eager && !new HashSet<>(last.assignment().get(id)).containsAll(owned.get(id));
        owned.put(id, last.assignment().get(id));
      }
      generation++;
      return again;
    }

    int settle(Target target, Fallback fallback) {
      int rounds = 1;
      while (round(target, fallback)) {
        rounds++;
        assertTrue(rounds < 10, "does not settle");
      }
      return rounds;
    }
  }

  /** As the consumer's coordinator checks it: nothing is added here while it is revoked there. */
  private static void assertCooperative(
      Map<String, Subscription> subscriptions, Map<String, List<TopicPartition>> assignment) {
    Set<TopicPartition> added = new HashSet<>();
    Set<TopicPartition> revoked = new HashSet<>();
    subscriptions.forEach(
        (id, subscription) -> {
          Set<TopicPartition> given = new HashSet<>(assignment.get(id));
          subscription.ownedPartitions().stream()
              .filter(p -> !given.contains(p))
              .forEach(revoked::add);
          given.removeAll(subscription.ownedPartitions());
          added.addAll(given);
        });
    added.retainAll(revoked);
    assertEquals(Set.of(), added);
  }

  private static Target target(Map<String, List<Integer>> ofT, String mode) {
    Map<String, Map<String, int[]>> assignment = new HashMap<>();
    ofT.forEach(
        (member, partitions) -> {
          assignment.put(member, new HashMap<>());
          partitions.forEach(p -> Scenario.give(assignment, member, "t", p));
        });
    for (int p = 0; p < 5; p++) {
      Scenario.give(assignment, "a", "u", p);
    }
    return new Target(
        new Position(3, 2),
        "p",
        0,
        0,
        mode,
        assignment.keySet(),
        assignment,
        Map.of("t", new double[] {9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "u", new double[5]),
        Map.of(),
        Map.of());
  }

  private static final Target AB =
      target(Map.of("a", List.of(0, 1), "b", List.of(2, 3, 4, 5, 6, 7, 8, 9, 10, 11)), "enforce");

  private static Group groupOf(String... clientIds) {
    Group group = new Group();
    for (String clientId : clientIds) {
      group.join(clientId);
    }
    return group;
  }

  private static List<Integer> partitionsOf(Group group, String clientId, String topic) {
    return group.owned.get(clientId + UUID).stream()
        .filter(p -> p.topic().equals(topic))
        .map(TopicPartition::partition)
        .sorted()
        .toList();
  }

  /** Without a target the group ends up exactly where its fallback alone would put it. */
  @Property(tries = 100)
  void equalsTheFallback(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Cluster cluster = Scenario.cluster(scenario.partitionCounts);
    for (ConsumerPartitionAssignor delegate :
        List.of(new RangeAssignor(), new RoundRobinAssignor())) {
      Map<String, Subscription> eager = new HashMap<>();
      scenario.members.forEach(m -> eager.put(m.id(), new Subscription(List.copyOf(m.topics()))));
      Map<String, List<TopicPartition>> expected = new HashMap<>();
      delegate
          .assign(cluster, new GroupSubscription(eager))
          .groupAssignment()
          .forEach((id, assignment) -> expected.put(id, assignment.partitions()));
      Outcome outcome =
          new Round(cluster, eager, null, fallback(delegate.getClass()), Intent.NONE).decide();
      assertEquals(expected, outcome.assignment());
      assertEquals(How.FALLBACK, outcome.how());
    }
  }

  /**
   * Moving from sticky to range under the cooperative protocol takes two rounds, no rule broken.
   */
  @Test
  void eagerFallbackUnderTheCooperativeProtocol() {
    Group group = groupOf("a", "b");
    group.settle(null, STICKY);
    group.join("0");
    assertEquals(2, group.settle(null, RANGE));
    assertEquals(List.of(0, 1, 2, 3), partitionsOf(group, "0", "t"));
  }

  /** Any claims and any target: the cooperative rule holds and every member has an entry. */
  @Property
  void cooperativeRule(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Target target = scenario.random.nextInt(5) == 0 ? null : scenario.target();
    Map<String, Subscription> subscriptions = new HashMap<>();
    for (Member m : scenario.members) {
      subscriptions.put(
          m.stableId() + UUID,
          new Subscription(
              List.copyOf(m.topics()),
              null,
              m.owned(),
              m.generation(),
              Optional.ofNullable(m.rack())));
    }
    Outcome outcome =
        new Round(
                Scenario.cluster(scenario.partitionCounts),
                subscriptions,
                target,
                scenario.random.nextBoolean() ? STICKY : RANGE,
                Intent.NONE)
            .decide();
    assertEquals(subscriptions.keySet(), outcome.assignment().keySet());
    assertCooperative(subscriptions, outcome.assignment());
  }

  /** A stable group follows a new target exactly, in two rounds. */
  @Test
  void followsTheTarget() {
    Group group = groupOf("a", "b");
    group.settle(null, STICKY);
    assertEquals(2, group.settle(AB, STICKY));
    assertEquals(List.of(0, 1), partitionsOf(group, "a", "t"));
    assertEquals(How.TARGET, group.last.how());
    assertEquals(0, group.last.held());
  }

  /** From any owners, a group whose members the target names holds the target after two rounds. */
  @Property
  void converges(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Group group = groupOf("a", "b");
    group.owned.put("a" + UUID, valid(scenario.members.get(0).owned(), group));
    group.settle(AB, RANGE);
    assertEquals(How.TARGET, group.last.how());
    assertEquals(List.of(0, 1, 2, 3, 4), partitionsOf(group, "a", "u"));
    assertEquals(List.of(0, 1), partitionsOf(group, "a", "t"));
  }

  private static List<TopicPartition> valid(List<TopicPartition> owned, Group group) {
    return owned.stream()
        .map(p -> new TopicPartition("t", p.partition()))
        .filter(p -> p.partition() < group.topics.get("t"))
        .distinct()
        .toList();
  }

  /** Random groups with a joiner, a leaver and any target settle in two rounds, and then stay. */
  @Property(tries = 300)
  void settlesAndStays(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Group group = new Group();
    group.topics.clear();
    group.topics.putAll(scenario.partitionCounts);
    scenario.members.forEach(m -> group.join(m.stableId()));
    group.settle(null, STICKY);
    Target target = scenario.target(1);
    assertTrue(group.settle(target, STICKY) <= 2);
    group.join("late");
    assertTrue(group.settle(target, STICKY) <= 2);
    assertAtRest(group, target);
    group.owned.remove(group.owned.keySet().iterator().next());
    assertTrue(group.settle(target, STICKY) <= 2);
    assertAtRest(group, target);
  }

  private static void assertAtRest(Group group, Target target) {
    Map<String, List<TopicPartition>> before = new HashMap<>(group.owned);
    group.settle(target, STICKY);
    assertEquals(before, group.owned);
  }

  /** Under the eager protocol nothing is withheld: one round does it. */
  @Test
  void eager() {
    Group group = groupOf("a", "b");
    group.eager = true;
    group.settle(null, RANGE);
    assertEquals(1, group.settle(AB, RANGE));
    assertEquals(List.of(0, 1), partitionsOf(group, "a", "t"));
  }

  /** The nudge member gets nothing, counts for nothing, and the fallback never sees it. */
  @Test
  void nudge() {
    Group group = groupOf("a", "b");
    group.extra.put(
        "plimsoll-nudge" + UUID,
        new Subscription(
            List.of(),
            ByteBuffer.wrap(
                "{\"v\":1,\"nudge\":true,\"epoch\":3,\"revision\":2}"
                    .getBytes(StandardCharsets.UTF_8))));
    group.settle(AB, STICKY);
    assertEquals(How.TARGET, group.last.how());
    assertEquals(2, group.last.members());
    assertEquals(List.of(), group.last.assignment().get("plimsoll-nudge" + UUID));
    group.settle(target(Map.of(), "observe"), RANGE);
    assertEquals(List.of(0, 1, 2, 3, 4, 5), partitionsOf(group, "a", "t"));
  }

  /** A target in any mode but enforce is not followed. */
  @Test
  void notEnforced() {
    Group group = groupOf("a", "b");
    group.settle(target(Map.of("a", List.of(0)), "shadow"), STICKY);
    assertEquals(Reason.NOT_ENFORCED, group.last.reason());
  }

  /** Two members of one name: the target says nothing certain, so it is not followed. */
  @Test
  void ambiguousMembers() {
    Group group = groupOf("a", "b");
    group.owned.put("a-11111111-89ab-cdef-0123-456789abcdef", List.of());
    group.settle(AB, STICKY);
    assertEquals(How.FALLBACK, group.last.how());
    assertEquals(Reason.AMBIGUOUS_MEMBERS, group.last.reason());
  }

  /** A leader that is behind what others know moves nothing, with an older target or with none. */
  @Test
  void behind() {
    for (Target older : new Target[] {null, AB}) {
      Group group = groupOf("a", "b");
      group.settle(null, RANGE);
      Map<String, List<TopicPartition>> before = new HashMap<>(group.owned);
      group.known.put("b" + UUID, new Position(3, 9));
      assertEquals(1, group.settle(older, STICKY));
      assertEquals(Reason.BEHIND, group.last.reason());
      assertEquals(before, group.owned);
    }
  }

  /** A fallback that throws costs balance, not ownership. */
  @Test
  void fallbackThatThrows() {
    Group group = groupOf("a", "b");
    group.settle(null, fallback(Broken.class));
    assertEquals(Reason.ERROR, group.last.reason());
    assertEquals(6, partitionsOf(group, "a", "t").size());
  }

  /** An assignor with a bug. */
  public static final class Broken implements ConsumerPartitionAssignor {
    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
      throw new IllegalStateException("bug");
    }

    @Override
    public String name() {
      return "broken";
    }
  }

  /** Two claims of one partition: the higher generation keeps it, equal ones both lose it. */
  @Test
  void doubleClaims() {
    TopicPartition partition = new TopicPartition("t", 0);
    Member old = new Member("old", "old", Set.of("t"), List.of(partition), 4, null);
    Member young = new Member("young", "young", Set.of("t"), List.of(partition), 5, null);
    Member other = new Member("other", "other", Set.of("t"), List.of(partition), 5, null);
    Map<String, List<TopicPartition>> toOld = Map.of("old", List.of(partition));
    Map<String, List<TopicPartition>> toYoung = Map.of("young", List.of(partition));
    assertEquals(List.of(), new Claims(List.of(old, young)).withhold(toOld).get("old"));
    assertEquals(
        List.of(partition), new Claims(List.of(old, young)).withhold(toYoung).get("young"));
    assertEquals(List.of(), new Claims(List.of(old, young, other)).withhold(toYoung).get("young"));
  }

  /** Bytes in the place of userData never hurt, whatever they are. */
  @Property
  void anyUserData(@ForAll byte[] bytes) {
    SubscriptionData.decode(ByteBuffer.wrap(bytes));
    Group group = groupOf("a", "b");
    group.extra.put("z" + UUID, new Subscription(List.of("t"), ByteBuffer.wrap(bytes)));
    new Round(Scenario.cluster(group.topics), group.subscriptions(), AB, STICKY, Intent.NONE)
        .decide();
  }

  /** What a member writes into its userData is read back, the fallback's bytes included. */
  @Property
  void userDataRoundTrip(@ForAll byte[] fallback) {
    SubscriptionData data =
        new SubscriptionData(new Position(7, 8), false, ByteBuffer.wrap(fallback));
    assertEquals(data, SubscriptionData.decode(data.encode()));
  }

  /** The stable id is the client id inside the member id, or the whole of another kind of id. */
  @Test
  void clientId() {
    assertEquals("a-b", Member.clientId("a-b" + UUID));
    assertEquals("plain", Member.clientId("plain"));
    List<String> ids = new ArrayList<>();
    Subscription named = new Subscription(List.of());
    named.setGroupInstanceId(Optional.of("i1"));
    ids.add(Member.of("i1" + UUID, named).stableId());
    assertEquals(List.of("i1"), ids);
  }
}
