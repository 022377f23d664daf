package io.plimsoll.assign;

import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Random groups, clusters and targets for properties. The same seed gives the same scenario. */
final class Scenario {
  final Random random;
  final Map<String, Integer> partitionCounts = new TreeMap<>();
  final List<Member> members = new ArrayList<>();

  Scenario(long seed) {
    random = new Random(seed);
    for (int t = 1 + random.nextInt(4); t > 0; t--) {
      partitionCounts.put("t" + t, random.nextInt(9));
    }
    int count = 1 + random.nextInt(7);
    for (int m = 0; m < count; m++) {
      members.add(new Member("c" + m + "-id", "c" + m, topics(), owned(), generation(), rack()));
    }
  }

  private int generation() {
    return random.nextInt(4) == 0 ? 3 : 4;
  }

  private String rack() {
    return random.nextBoolean() ? null : "r" + random.nextInt(3);
  }

  private Set<String> topics() {
    Set<String> topics = new HashSet<>(partitionCounts.keySet());
    if (random.nextInt(4) == 0) {
      topics.removeIf(topic -> random.nextBoolean());
    }
    if (random.nextInt(8) == 0) {
      topics.add("absent");
    }
    return topics;
  }

  /** Claims as they come: some doubled, some of partitions that are not there. */
  private List<TopicPartition> owned() {
    List<TopicPartition> owned = new ArrayList<>();
    for (int i = random.nextInt(8); i > 0; i--) {
      owned.add(new TopicPartition("t" + (1 + random.nextInt(4)), random.nextInt(10)));
    }
    return owned;
  }

  /**
   * A target that knows some of the members and some that are gone, and may be badly out of date.
   */
  Target target() {
    return target(0);
  }

  Target target(int capacityMin) {
    Set<String> named = new HashSet<>();
    for (int m = 0; m < 9; m++) {
      if (random.nextBoolean()) {
        named.add("c" + m);
      }
    }
    Map<String, Map<String, int[]>> assignment = new HashMap<>();
    List<String> names = List.copyOf(named);
    for (int t = 1; t <= 5 && !names.isEmpty(); t++) {
      for (int p = 0; p < 10; p++) {
        if (random.nextInt(4) > 0) {
          give(assignment, names.get(random.nextInt(names.size())), "t" + t, p);
        }
      }
    }
    Map<String, double[]> weights = new HashMap<>();
    for (int t = 1; t <= 4; t++) {
      if (random.nextInt(4) > 0) {
        weights.put("t" + t, random.doubles(random.nextInt(10), 0, 1000).toArray());
      }
    }
    Map<String, Double> capacity = new HashMap<>();
    named.forEach(name -> capacity.put(name, capacityMin + (double) random.nextInt(3)));
    return target(named, assignment, weights, capacity);
  }

  static Target target(
      Set<String> named,
      Map<String, Map<String, int[]>> assignment,
      Map<String, double[]> weights,
      Map<String, Double> capacity) {
    return new Target(
        new Position(3, 2), "p", 0, 0, "enforce", named, assignment, weights, capacity, Map.of());
  }

  static void give(
      Map<String, Map<String, int[]>> assignment, String member, String topic, int partition) {
    assignment
        .computeIfAbsent(member, m -> new HashMap<>())
        .merge(
            topic,
            new int[] {partition},
            (a, b) -> IntStream.concat(IntStream.of(a), IntStream.of(b)).toArray());
  }

  /** A cluster with these topics, each partition with one replica, racks in turn. */
  static Cluster cluster(Map<String, Integer> partitionCounts) {
    List<Node> nodes =
        IntStream.range(0, 3).mapToObj(n -> new Node(n, "h", 9092, "r" + n)).toList();
    List<PartitionInfo> partitions = new ArrayList<>();
    partitionCounts.forEach(
        (topic, count) -> {
          for (int p = 0; p < count; p++) {
            Node[] replicas = {nodes.get(p % 3)};
            partitions.add(new PartitionInfo(topic, p, replicas[0], replicas, replicas));
          }
        });
    return new Cluster("cluster", nodes, partitions, Set.of(), Set.of());
  }
}
