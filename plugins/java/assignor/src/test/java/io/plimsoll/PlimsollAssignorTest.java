package io.plimsoll;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.ObjectName;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.RebalanceProtocol;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.junit.jupiter.api.Test;

class PlimsollAssignorTest {
  /** Nothing listens there. */
  private static final Map<String, Object> UNREACHABLE =
      Map.of("bootstrap.servers", "127.0.0.1:1", "group.id", "g", "client.id", "c1");

  private static Map<String, Object> with(String key, Object value) {
    Map<String, Object> config = new HashMap<>(UNREACHABLE);
    config.put(key, value);
    return config;
  }

  /** With an unreachable cluster the assignor is ready at once and assigns as its fallback does. */
  @Test
  void unreachableCluster() throws Exception {
    PlimsollAssignor assignor = new PlimsollAssignor();
    long start = System.nanoTime();
    assignor.configure(UNREACHABLE);
    Node node = new Node(0, "h", 1);
    PartitionInfo partition = new PartitionInfo("t", 0, node, new Node[0], new Node[0]);
    Cluster cluster = new Cluster("c", List.of(node), List.of(partition), Set.of(), Set.of());
    Subscription subscription =
        new Subscription(List.of("t"), assignor.subscriptionUserData(Set.of("t")));
    GroupAssignment result =
        assignor.assign(cluster, new GroupSubscription(Map.of("m", subscription)));
    assertTrue(System.nanoTime() - start < 1_000_000_000L);
    assertEquals(1, result.groupAssignment().get("m").partitions().size());
    assertNull(result.groupAssignment().get("m").userData(), "it would block the online upgrade");
    assertEquals(
        Map.of("FALLBACK/NO_TARGET", 1L), AssignorStats.shared("g").getAssignmentsByDecision());
    assertTrue(
        ManagementFactory.getPlatformMBeanServer()
            .isRegistered(new ObjectName("io.plimsoll:type=Assignor,group=\"g\"")));
  }

  /** A consumer takes the assignor by its class name, with unknown keys in its configuration. */
  @Test
  void consumerConfiguration() {
    Map<String, Object> config =
        with("plimsoll.fallback", "org.apache.kafka.clients.consumer.RangeAssignor");
    config.put("partition.assignment.strategy", PlimsollAssignor.class.getName());
    new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close();
  }

  /** A consumer without a group can be built with the same configuration. */
  @Test
  void noGroup() {
    Map<String, Object> config = with("enable.auto.commit", false);
    config.remove("group.id");
    config.put("partition.assignment.strategy", PlimsollAssignor.class.getName());
    new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer()).close();
  }

  /** A fallback that cannot be used is refused when the consumer is built, by name of the key. */
  @Test
  void badFallback() {
    for (Object bad : List.of("no.such.Class", "java.lang.String", PlimsollAssignor.class)) {
      assertTrue(
          assertThrows(
                  ConfigException.class,
                  () -> new PlimsollAssignor().configure(with("plimsoll.fallback", bad)))
              .getMessage()
              .contains("plimsoll.fallback"));
    }
  }

  /** Both protocols, the cooperative one preferred. */
  @Test
  void protocols() {
    assertEquals(
        List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
        new PlimsollAssignor().supportedProtocols());
  }
}
