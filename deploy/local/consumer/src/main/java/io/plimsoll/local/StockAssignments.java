package io.plimsoll.local;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints what Kafka's own assignors would do, by asking them: {@code MEMBERS TOPICS PARTITIONS}, the
 * first two comma-separated. Answers one JSON object, strategy to member to topic to partitions.
 * Cooperative-sticky is asked once for each member that joins, in the order given, until nobody has
 * to give anything up: that is how a real group comes to its assignment.
 */
public final class StockAssignments {
  private StockAssignments() {}

  public static void main(String[] args) {
    List<String> members = Arrays.asList(args[0].split(","));
    List<String> topics = Arrays.asList(args[1].split(","));
    Cluster cluster = cluster(topics, Integer.parseInt(args[2]));
    Map<String, String> answers = new TreeMap<>();
    answers.put("range", json(assign(new RangeAssignor(), cluster, topics, members, Map.of())));
    answers.put("roundrobin", json(assign(new RoundRobinAssignor(), cluster, topics, members, Map.of())));
    answers.put("cooperative-sticky", json(joinOneByOne(cluster, topics, members)));
    StringBuilder out = new StringBuilder();
    answers.forEach((name, answer) -> out.append(out.length() == 0 ? "{" : ",").append('"').append(name).append("\":").append(answer));
    System.out.println(out.append('}'));
  }

  private static Map<String, List<TopicPartition>> joinOneByOne(Cluster cluster, List<String> topics, List<String> members) {
    CooperativeStickyAssignor sticky = new CooperativeStickyAssignor();
    Map<String, List<TopicPartition>> owned = Map.of();
    for (int count = 1; count <= members.size(); count++) {
      Map<String, List<TopicPartition>> next = assign(sticky, cluster, topics, members.subList(0, count), owned);
      while (!next.equals(owned)) {
        owned = next;
        next = assign(sticky, cluster, topics, members.subList(0, count), owned);
      }
    }
    return owned;
  }

  private static Map<String, List<TopicPartition>> assign(
      ConsumerPartitionAssignor assignor, Cluster cluster, List<String> topics, List<String> members, Map<String, List<TopicPartition>> owned) {
    Map<String, Subscription> subscriptions = new HashMap<>();
    for (String member : members) {
      subscriptions.put(member, new Subscription(topics, null, owned.getOrDefault(member, List.of())));
    }
    Map<String, List<TopicPartition>> result = new TreeMap<>();
    Map<String, Assignment> assignments = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
    assignments.forEach((member, assignment) -> result.put(member, sorted(assignment.partitions())));
    return result;
  }

  private static List<TopicPartition> sorted(List<TopicPartition> partitions) {
    List<TopicPartition> copy = new ArrayList<>(partitions);
    copy.sort((a, b) -> a.topic().equals(b.topic()) ? Integer.compare(a.partition(), b.partition()) : a.topic().compareTo(b.topic()));
    return copy;
  }

  private static Cluster cluster(List<String> topics, int partitions) {
    Node node = new Node(1, "localhost", 9092);
    Node[] replicas = {node};
    List<PartitionInfo> infos = new ArrayList<>();
    for (String topic : topics) {
      for (int partition = 0; partition < partitions; partition++) {
        infos.add(new PartitionInfo(topic, partition, node, replicas, replicas));
      }
    }
    return new Cluster("local", List.of(node), infos, java.util.Set.of(), java.util.Set.of());
  }

  private static String json(Map<String, List<TopicPartition>> assignment) {
    StringBuilder out = new StringBuilder();
    assignment.forEach((member, partitions) -> {
      Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
      partitions.forEach(tp -> byTopic.computeIfAbsent(tp.topic(), topic -> new TreeSet<>()).add(tp.partition()));
      StringBuilder topics = new StringBuilder();
      byTopic.forEach((topic, numbers) -> topics.append(topics.length() == 0 ? "{" : ",").append('"').append(topic).append("\":").append(numbers));
      out.append(out.length() == 0 ? "{" : ",").append('"').append(member).append("\":").append(topics.length() == 0 ? "{" : topics).append('}');
    });
    return out.append('}').toString();
  }
}
