package io.plimsoll.streams;

import io.plimsoll.control.Position;
import io.plimsoll.control.Target;
import io.plimsoll.control.Target.TaskShare;
import io.plimsoll.streams.NextStep.Placement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.state.HostInfo;

/** A Streams application that lives in memory, through one rebalance after another. */
final class Fake implements ApplicationState {
  /** Records in each changelog: what a process without state lags by. */
  static final long END = 1_000_000;

  final Map<TaskId, TaskInfo> tasks = new TreeMap<>();
  final Map<String, Instance> instances = new TreeMap<>();
  int standbys = 1;
  int maxWarmups = 2;
  List<String> tags = List.of();

  /** Subtopology 0 stateless, the others stateful, each with this many partitions. */
  Fake(int subtopologies, int partitions) {
    for (int s = 0; s < subtopologies; s++) {
      for (int p = 0; p < partitions; p++) {
        TaskId id = new TaskId(s, p);
        tasks.put(id, new Task(id, s > 0));
      }
    }
  }

  static Fake random(Random random) {
    Fake fake = new Fake(1 + random.nextInt(3), 1 + random.nextInt(6));
    fake.standbys = random.nextInt(3);
    fake.maxWarmups = 1 + random.nextInt(3);
    for (int i = 1 + random.nextInt(5); i > 0; i--) {
      Instance instance = fake.join("i" + i);
      for (TaskId task : fake.tasks.keySet()) {
        switch (random.nextInt(6)) {
          case 0 -> instance.active.add(task);
          case 1 -> instance.standby.add(task);
          case 2 -> instance.lags.put(task, (long) random.nextInt(20_000) - 3);
          default -> {
            // No state here.
          }
        }
      }
    }
    return fake;
  }

  Instance join(String name) {
    Instance instance = new Instance(name, this);
    instances.put(name, instance);
    return instance;
  }

  void apply(Placement placement, boolean catchUp) {
    apply(placement, catchUp, true);
  }

  /**
   * Everyone takes what the placement gives; copies catch up before the next rebalance if told.
   *
   * @param atOnce a moved task changes hands at once, else it belongs to nobody until the next
   *     rebalance, as under the cooperative protocol
   * @return whether every task has changed hands
   */
  boolean apply(Placement placement, boolean catchUp, boolean atOnce) {
    Map<TaskId, Process> owners = Application.of(this).previousOwners();
    boolean all = true;
    for (Instance instance : instances.values()) {
      instance.active.clear();
      instance.standby.clear();
    }
    for (Map.Entry<TaskId, Process> given : placement.active().entrySet()) {
      Process owner = owners.get(given.getKey());
      if (atOnce || owner == null || owner.equals(given.getValue())) {
        by(given.getValue()).active.add(given.getKey());
      } else {
        all = false;
      }
    }
    placement
        .copies()
        .forEach((task, processes) -> processes.forEach(p -> by(p).standby.add(task)));
    for (Instance instance : instances.values()) {
      instance.active.forEach(task -> instance.lags.put(task, -2L));
      instance.standby.forEach(task -> instance.lags.computeIfPresent(task, (t, lag) -> 0L));
      if (catchUp) {
        instance.standby.forEach(task -> instance.lags.put(task, 0L));
      }
      // A closed task keeps its state on disk, a little behind.
      instance.lags.replaceAll(
          (task, lag) -> lag == -2 && !instance.active.contains(task) ? 100L : lag);
    }
    return all;
  }

  Instance by(Process process) {
    return instances.get(process.stableId());
  }

  static Target target(Map<String, TaskShare> tasks) {
    return new Target(
        new Position(4, 1),
        "p",
        0,
        0,
        "enforce",
        tasks.keySet(),
        Map.of(),
        Map.of(),
        Map.of(),
        tasks);
  }

  /** A target that may name instances that are gone and tasks that are not there. */
  Target randomTarget(Random random) {
    Map<String, TaskShare> shares = new HashMap<>();
    for (int i = 0; i < 7; i++) {
      if (random.nextBoolean()) {
        shares.put("i" + i, new TaskShare(new ArrayList<>(), new ArrayList<>(), new ArrayList<>()));
      }
    }
    List<TaskShare> list = List.copyOf(shares.values());
    for (int s = 0; s < 4 && !list.isEmpty(); s++) {
      for (int p = 0; p < 7; p++) {
        String task = s + "_" + p;
        list.get(random.nextInt(list.size())).active().add(task);
        TaskShare other = list.get(random.nextInt(list.size()));
        if (!other.active().contains(task)) {
          (random.nextBoolean() ? other.standby() : other.warmup()).add(task);
        }
      }
    }
    return target(shares);
  }

  @Override
  public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
    Map<ProcessId, KafkaStreamsState> states = new TreeMap<>();
    instances.values().forEach(instance -> states.put(instance.processId(), instance));
    return states;
  }

  @Override
  public AssignmentConfigs assignmentConfigs() {
    return new AssignmentConfigs(
        10_000L,
        maxWarmups,
        standbys,
        600_000L,
        tags,
        OptionalInt.empty(),
        OptionalInt.empty(),
        "none");
  }

  @Override
  public Map<TaskId, TaskInfo> allTasks() {
    return tasks;
  }

  /** One process. */
  static final class Instance implements KafkaStreamsState {
    final String name;
    final Fake application;
    final SortedSet<TaskId> active = new TreeSet<>();
    final SortedSet<TaskId> standby = new TreeSet<>();
    final Map<TaskId, Long> lags = new HashMap<>();
    final Map<String, String> tags = new HashMap<>();
    int threads = 1;
    String rack;

    Instance(String name, Fake application) {
      this.name = name;
      this.application = application;
    }

    @Override
    public ProcessId processId() {
      return new ProcessId(UUID.nameUUIDFromBytes(name.getBytes()));
    }

    @Override
    public int numProcessingThreads() {
      return threads;
    }

    @Override
    public SortedSet<String> consumerClientIds() {
      return new TreeSet<>(Set.of(name + "-StreamThread-1-consumer-" + UUID.randomUUID()));
    }

    @Override
    public SortedSet<TaskId> previousActiveTasks() {
      return active;
    }

    @Override
    public SortedSet<TaskId> previousStandbyTasks() {
      return standby;
    }

    @Override
    public long lagFor(TaskId task) {
      return statefulTasksToLagSums().get(task);
    }

    @Override
    public SortedSet<TaskId> prevTasksByLag(String consumerClientId) {
      return new TreeSet<>();
    }

    @Override
    public Map<TaskId, Long> statefulTasksToLagSums() {
      Map<TaskId, Long> sums = new HashMap<>();
      application.tasks.forEach(
          (id, info) -> {
            if (info.isStateful()) {
              sums.put(id, lags.getOrDefault(id, active.contains(id) ? -2L : END));
            }
          });
      return sums;
    }

    @Override
    public Optional<HostInfo> hostInfo() {
      return Optional.empty();
    }

    @Override
    public Map<String, String> clientTags() {
      return tags;
    }

    @Override
    public Optional<String> rackId() {
      return Optional.ofNullable(rack);
    }
  }

  private record Task(TaskId id, boolean isStateful) implements TaskInfo {
    @Override
    public Set<String> stateStoreNames() {
      return isStateful ? Set.of("store") : Set.of();
    }

    @Override
    public Set<TaskTopicPartition> topicPartitions() {
      Set<TaskTopicPartition> partitions = new HashSet<>();
      partitions.add(
          new Partition(new TopicPartition("in" + id.subtopology(), id.partition()), true));
      if (isStateful) {
        partitions.add(
            new Partition(new TopicPartition("log" + id.subtopology(), id.partition()), false));
      }
      return partitions;
    }
  }

  private record Partition(TopicPartition topicPartition, boolean isSource)
      implements TaskTopicPartition {
    @Override
    public boolean isChangelog() {
      return !isSource;
    }

    @Override
    public Optional<Set<String>> rackIds() {
      return Optional.of(Set.of("r1"));
    }
  }
}
