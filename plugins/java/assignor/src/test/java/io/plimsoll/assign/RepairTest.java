package io.plimsoll.assign;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.assign.Repair.Plan;
import io.plimsoll.control.Target;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class RepairTest {
  /** Any target or none gives every subscribed partition exactly one live, subscribed owner. */
  @Property
  void legal(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Target target = scenario.random.nextInt(5) == 0 ? null : scenario.target();
    for (Lead lead : Lead.values()) {
      assertLegal(scenario, repair(scenario, target, lead).assignment());
    }
  }

  private static Plan repair(Scenario scenario, Target target, Lead lead) {
    return Repair.repair(
        target,
        lead,
        scenario.members,
        scenario.partitionCounts,
        new Claims(scenario.members),
        Intent.NONE,
        (member, partition) -> partition.partition() % 3 == 0);
  }

  private static void assertLegal(Scenario scenario, Map<String, List<TopicPartition>> assignment) {
    Set<TopicPartition> given = new HashSet<>();
    for (Member member : scenario.members) {
      for (TopicPartition partition : assignment.get(member.id())) {
        assertTrue(given.add(partition), () -> partition + " has two owners");
        assertTrue(member.topics().contains(partition.topic()), "not subscribed");
      }
    }
    for (Member member : scenario.members) {
      for (String topic : member.topics()) {
        for (int p = 0; p < scenario.partitionCounts.getOrDefault(topic, 0); p++) {
          TopicPartition partition = new TopicPartition(topic, p);
          assertTrue(given.remove(partition) || owned(assignment, partition), "nobody's");
        }
      }
    }
    assertTrue(given.isEmpty(), "partitions that do not exist");
    assertEquals(scenario.members.size(), assignment.size(), "an entry for every member");
  }

  private static boolean owned(
      Map<String, List<TopicPartition>> assignment, TopicPartition partition) {
    return assignment.values().stream().anyMatch(share -> share.contains(partition));
  }

  /** The order in which members come does not matter. */
  @Property
  void deterministic(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Target target = scenario.target();
    Plan plan = repair(scenario, target, Lead.TARGET);
    Collections.shuffle(scenario.members, new Random(seed));
    assertEquals(plan, repair(scenario, target, Lead.TARGET));
  }

  /** Where the owners lead, nothing that a live, subscribed member rightfully holds moves. */
  @Property
  void ownersLead(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Claims claims = new Claims(scenario.members);
    Map<String, List<TopicPartition>> assignment =
        repair(scenario, scenario.target(), Lead.OWNERS).assignment();
    for (Member member : scenario.members) {
      for (TopicPartition partition : member.owned()) {
        boolean exists =
            partition.partition() < scenario.partitionCounts.getOrDefault(partition.topic(), 0);
        if (exists
            && member.topics().contains(partition.topic())
            && member.id().equals(claims.owner(partition))) {
          assertTrue(assignment.get(member.id()).contains(partition), partition::toString);
        }
      }
    }
  }

  /** A member that the target names keeps all that the target gives it, unless a guest holds it. */
  @Property
  void namedMembersGetTheirs(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Target target = scenario.target();
    scenario.members.removeIf(member -> !target.members().contains(member.stableId()));
    Plan plan = repair(scenario, target, Lead.TARGET);
    for (Member member : scenario.members) {
      target
          .assignment()
          .getOrDefault(member.stableId(), Map.of())
          .forEach(
              (topic, partitions) -> {
                for (int p : partitions) {
                  if (member.topics().contains(topic)
                      && p < scenario.partitionCounts.getOrDefault(topic, 0)) {
                    assertTrue(
                        plan.assignment().get(member.id()).contains(new TopicPartition(topic, p)));
                  }
                }
              });
    }
  }

  /** A joiner of a level group is filled to its share with about as many moves as that takes. */
  @Property(tries = 200)
  void joinersAreLevelledIn(@ForAll long seed) {
    Random random = new Random(seed);
    int old = 2 + random.nextInt(6);
    int joiners = 1 + random.nextInt(3);
    Level level = new Level(random, old, 40 * old);
    List<Member> members = new ArrayList<>(level.members);
    for (int j = 0; j < joiners; j++) {
      members.add(new Member("j" + j, "j" + j, Set.of("t"), List.of(), -1, null));
    }
    Plan plan = level.repair(members);
    double total = IntStream.of(level.weight).sum();
    double share = total / (old + joiners);
    double largest = IntStream.of(level.weight).max().orElseThrow();
    int moves = 0;
    for (Member member : members) {
      List<TopicPartition> partitions = plan.assignment().get(member.id());
      double load = partitions.stream().mapToInt(p -> level.weight[p.partition()]).sum();
      assertTrue(load < share * 1.1 + largest, () -> member.id() + " has " + load / share);
      if (member.owned().isEmpty()) {
        assertTrue(load > share * 0.9 - largest, () -> member.id() + " has " + load / share);
        moves += partitions.size();
      } else {
        assertTrue(new HashSet<>(member.owned()).containsAll(partitions), "only joiners gain");
      }
    }
    assertTrue(moves <= 1.5 * joiners * 40 * old / (old + joiners) + joiners, "moves: " + moves);
  }

  /** Members c0, c1, … of equal capacity, levelled over one topic by a target that they follow. */
  private static final class Level {
    final List<Member> members = new ArrayList<>();
    final int[] weight;
    final Target target;

    Level(Random random, int count, int partitions) {
      weight = IntStream.generate(() -> 50 + random.nextInt(100)).limit(partitions).toArray();
      Map<String, Map<String, int[]>> assignment = new HashMap<>();
      Map<String, List<TopicPartition>> owned = new HashMap<>();
      for (int p = 0; p < partitions; p++) {
        Scenario.give(assignment, "c" + p % count, "t", p);
        owned
            .computeIfAbsent("c" + p % count, m -> new ArrayList<>())
            .add(new TopicPartition("t", p));
      }
      owned.forEach(
          (id, share) -> members.add(new Member(id + "-id", id, Set.of("t"), share, 1, null)));
      target =
          Scenario.target(
              owned.keySet(),
              assignment,
              Map.of("t", IntStream.of(weight).asDoubleStream().toArray()),
              Map.of());
    }

    Plan repair(List<Member> live) {
      return Repair.repair(
          target,
          Lead.TARGET,
          live,
          Map.of("t", weight.length),
          new Claims(live),
          Intent.NONE,
          (member, partition) -> false);
    }
  }

  /** What a member leaves behind goes to the others by load; nothing else moves. */
  @Property(tries = 200)
  void orphansGoWhereThereIsRoom(@ForAll long seed) {
    Level level = new Level(new Random(seed), 5, 100);
    List<Member> survivors = level.members.subList(0, 4);
    Map<String, List<TopicPartition>> assignment = level.repair(survivors).assignment();
    double share = IntStream.of(level.weight).sum() / 4.0;
    for (Member member : survivors) {
      List<TopicPartition> partitions = assignment.get(member.id());
      assertTrue(new HashSet<>(partitions).containsAll(member.owned()), "moved without need");
      double load = partitions.stream().mapToInt(p -> level.weight[p.partition()]).sum();
      assertTrue(load < 1.3 * share, () -> "" + load / share);
    }
  }

  /** Orphans that a survivor took over stay with it at the next rebalance. */
  @Test
  void adoptedOrphansStay() {
    Level level = new Level(new Random(1), 5, 100);
    Map<String, List<TopicPartition>> first =
        level.repair(level.members.subList(0, 4)).assignment();
    List<Member> settled =
        level.members.subList(0, 4).stream()
            .map(m -> new Member(m.id(), m.stableId(), m.topics(), first.get(m.id()), 2, null))
            .toList();
    assertEquals(first, level.repair(settled).assignment());
  }

  /**
   * All members renamed by a redeployment: the weights still level them, owners keep what is level.
   */
  @Test
  void everyMemberIsNew() {
    Level level = new Level(new Random(1), 4, 80);
    List<Member> renamed =
        IntStream.range(0, 4)
            .mapToObj(
                i -> new Member("n" + i, "n" + i, Set.of("t"), List.<TopicPartition>of(), -1, null))
            .toList();
    Map<String, List<TopicPartition>> assignment = level.repair(renamed).assignment();
    double share = IntStream.of(level.weight).sum() / 4.0;
    assignment.forEach(
        (id, partitions) ->
            assertTrue(
                partitions.stream().mapToInt(p -> level.weight[p.partition()]).sum()
                    < 1.05 * share));
  }

  /** Weights and capacities at the ends of what the door lets in still give a legal assignment. */
  @Property(tries = 200)
  void extremeAmounts(@ForAll long seed) {
    Scenario scenario = new Scenario(seed);
    Target target = scenario.target();
    target
        .weights()
        .values()
        .forEach(
            row -> {
              for (int p = 0; p < row.length; p++) {
                row[p] = new double[] {0, 1, 1L << 53}[scenario.random.nextInt(3)];
              }
            });
    target
        .capacity()
        .replaceAll(
            (member, units) -> new double[] {0, 1e-300, 1L << 53}[scenario.random.nextInt(3)]);
    assertLegal(scenario, repair(scenario, target, Lead.TARGET).assignment());
  }

  /** Idle partitions are spread as well, not heaped on one member. */
  @Test
  void idlePartitionsSpread() {
    List<Member> members =
        IntStream.range(0, 4)
            .mapToObj(
                i -> new Member("n" + i, "n" + i, Set.of("t"), List.<TopicPartition>of(), -1, null))
            .toList();
    Target idle = Scenario.target(Set.of(), Map.of(), Map.of("t", new double[40]), Map.of());
    Plan plan =
        Repair.repair(
            idle,
            Lead.TARGET,
            members,
            Map.of("t", 40),
            new Claims(members),
            Intent.NONE,
            (m, p) -> false);
    assertEquals(
        List.of(10, 10, 10, 10),
        plan.assignment().values().stream().map(List::size).collect(Collectors.toList()));
  }

  /** A thousand members and fifty thousand partitions are repaired well within a second. */
  @Test
  void largeGroup() {
    Level level = new Level(new Random(1), 1000, 50_000);
    List<Member> members = new ArrayList<>(level.members.subList(0, 900));
    for (int j = 0; j < 100; j++) {
      members.add(new Member("j" + j, "j" + j, Set.of("t"), List.of(), -1, null));
    }
    long start = System.nanoTime();
    level.repair(members);
    long millis = (System.nanoTime() - start) / 1_000_000;
    assertTrue(millis < 5_000, () -> millis + " ms");
  }
}
