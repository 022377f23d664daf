package io.plimsoll.control;

import io.plimsoll.control.TargetLog.Outcome;
import io.plimsoll.control.TargetLog.Verdict;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the control topic in the background and holds the newest target of each watched group.
 *
 * <p>There is one daemon thread per JVM, cluster and topic, shared by every assignor in it; nothing
 * closes it, because Kafka never closes an assignor. It belongs to no consumer group. Nothing here
 * blocks a caller: {@link #shared} starts the thread and returns, {@link #target} reads a volatile
 * field. A missing topic or an unreachable cluster is retried for ever; what was read before stays.
 *
 * <p>Whenever it has to start over (a new group to watch, a lost position), the topic is folded
 * anew from its beginning, and callers see the earlier state until that fold has caught up.
 */
public final class TargetReader implements TargetReaderMXBean, Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(TargetReader.class);
  private static final Map<String, TargetReader> SHARED = new ConcurrentHashMap<>();

  /** States in which reading goes on, so that more may be known soon. */
  private static final Set<String> READING = Set.of("STARTING", "CATCHING_UP", "LIVE");

  private static final Duration POLL = Duration.ofMillis(500);
  private static final Duration LOOKUP = Duration.ofSeconds(5);

  /**
   * First and longest pause between attempts, milliseconds: a new topic is found within seconds.
   */
  private static final long BACKOFF_MS_MIN = 250;

  private static final long BACKOFF_MS_MAX = 2_000;

  /** Pause before a new consumer is built because the old one could not be, milliseconds. */
  private static final long RESTART_MS = 30_000;

  private final Map<String, Object> config;
  private final String topic;
  private final Set<String> groups = ConcurrentHashMap.newKeySet();
  private final Map<Outcome, AtomicLong> counts = new ConcurrentHashMap<>();
  private volatile boolean startOver;
  private volatile Map<String, Target> targets = Map.of();
  private volatile Set<String> settled = Set.of();
  private volatile String state = "STARTING";
  private volatile long newestClaim = -1;

  /** The fold that callers see; touched by the reader's thread only. */
  private TargetLog current;

  private long currentEnd;

  private TargetReader(Map<String, Object> config, String topic) {
    this.config = config;
    this.topic = topic;
  }

  /**
   * The reader of one control topic, started if this is the first call for it.
   *
   * @param bootstrapServers as in {@code bootstrap.servers}: a string or a list
   * @param clientConfig the client's whole configuration; its security settings are used
   */
  public static TargetReader shared(
      Object bootstrapServers, String topic, Map<String, ?> clientConfig) {
    return SHARED.computeIfAbsent(
        bootstrapServers + "|" + topic,
        key -> {
          TargetReader reader =
              new TargetReader(readerConfig(bootstrapServers, clientConfig), topic);
          Thread thread = new Thread(reader, "plimsoll-target-reader");
          thread.setDaemon(true);
          thread.start();
          return reader;
        });
  }

  /** Keeps this group's target from now on. */
  public void watch(String group) {
    if (groups.add(group)) {
      startOver = true;
    }
  }

  /** The newest good target of a watched group, as far as this process knows. */
  public Optional<Target> target(String group) {
    return Optional.ofNullable(targets.get(group));
  }

  /**
   * Whether it is known if this group has a target: the topic was read to its end for it, or cannot
   * be read for now.
   */
  public boolean isSettled(String group) {
    return settled.contains(group) || !READING.contains(state);
  }

  private static Map<String, Object> readerConfig(
      Object bootstrapServers, Map<String, ?> clientConfig) {
    Map<String, Object> config = ClientSettings.inherit(bootstrapServers, clientConfig);
    config.put(
        ConsumerConfig.CLIENT_ID_CONFIG, "plimsoll-target-reader-" + ProcessHandle.current().pid());
    config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    config.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    // A lost position means that the topic was re-created or truncated: start over, knowingly.
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    config.put(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, (int) LOOKUP.toMillis());
    config.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, (int) LOOKUP.toMillis());
    config.put(ConsumerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 5_000);
    config.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, 30_000);
    return config;
  }

  /** The thread's whole life; ends only by interruption. */
  @Override
  public void run() {
    register();
    while (!Thread.currentThread().isInterrupted()) {
      try (KafkaConsumer<byte[], byte[]> consumer =
          new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
        follow(consumer);
      } catch (Exception | LinkageError e) { // whatever happened, the last good targets stay
        state("FAILED", e.toString());
      }
      sleep(RESTART_MS);
    }
  }

  private void follow(KafkaConsumer<byte[], byte[]> consumer) {
    long backoffMs = BACKOFF_MS_MIN;
    while (!Thread.currentThread().isInterrupted()) {
      try {
        TopicPartition partition = findTopic(consumer);
        if (partition != null) {
          consumer.assign(List.of(partition));
          readFromBeginning(consumer, partition);
          backoffMs = BACKOFF_MS_MIN;
          continue;
        }
      } catch (InterruptException e) {
        throw e;
      } catch (KafkaException e) {
        state("UNREACHABLE", e.toString());
      }
      sleep(backoffMs);
      backoffMs = Math.min(2 * backoffMs, BACKOFF_MS_MAX);
    }
  }

  private TopicPartition findTopic(KafkaConsumer<byte[], byte[]> consumer) {
    List<PartitionInfo> partitions = consumer.partitionsFor(topic, LOOKUP);
    if (partitions == null || partitions.isEmpty()) {
      state("NO_TOPIC", topic);
      return null;
    }
    if (partitions.size() > 1) {
      // Epochs are offsets: they order nothing across partitions.
      state("BAD_TOPIC", topic + " has " + partitions.size() + " partitions instead of 1");
      return null;
    }
    return new TopicPartition(topic, 0);
  }

  /** Folds the topic anew, and on and on; returns when it has to be folded anew once more. */
  private void readFromBeginning(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
    startOver = false;
    Set<TopicPartition> one = Set.of(partition);
    long end = consumer.endOffsets(one).get(partition);
    TargetLog log = new TargetLog(Set.copyOf(groups));
    consumer.seekToBeginning(one);
    state("CATCHING_UP", "");
    boolean live = false;
    int leaderEpoch = -1;
    while (!startOver) {
      if (!live && consumer.position(partition) >= end) {
        live = true;
        if (current != null && end >= currentEnd) {
          log.inherit(current);
        }
        current = log;
        publish(log);
        state("LIVE", "");
      }
      List<ConsumerRecord<byte[], byte[]>> records = consumer.poll(POLL).records(partition);
      for (ConsumerRecord<byte[], byte[]> record : records) {
        int epoch = record.leaderEpoch().orElse(leaderEpoch);
        if (epoch < leaderEpoch) {
          LOG.warn("The control topic {} was re-created: reading it anew", topic);
          return;
        }
        leaderEpoch = epoch;
        count(record, log.accept(record.offset(), record.key(), record.value()));
      }
      if (live) {
        currentEnd = consumer.position(partition);
        if (!records.isEmpty()) {
          publish(log);
        }
      }
    }
  }

  private void publish(TargetLog log) {
    newestClaim = log.newestClaim();
    targets = log.targets();
    settled = log.groups();
  }

  private void count(ConsumerRecord<byte[], byte[]> record, Verdict verdict) {
    Outcome outcome = verdict.outcome();
    long count = counts.computeIfAbsent(outcome, o -> new AtomicLong()).incrementAndGet();
    if (outcome.isRejection() && Long.bitCount(count) == 1) { // the 1st, 2nd, 4th, 8th, … of a kind
      LOG.warn(
          "Ignored record {} of {}: {} ({}); {} so far",
          record.offset(),
          topic,
          outcome,
          verdict.why(),
          count);
    }
  }

  private void state(String newState, String why) {
    if (!newState.equals(state)) {
      LOG.info("Reader of {}: {} {}", topic, newState, why);
      state = newState;
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void register() {
    try {
      ObjectName name =
          new ObjectName(
              "io.plimsoll:type=TargetReader,topic="
                  + ObjectName.quote(topic)
                  + ",bootstrap="
                  + ObjectName.quote(
                      String.valueOf(config.get(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG))));
      ManagementFactory.getPlatformMBeanServer().registerMBean(this, name);
    } catch (JMException | SecurityException e) {
      LOG.info("No JMX view of the reader: {}", e.toString());
    }
  }

  @Override
  public String getState() {
    return state;
  }

  @Override
  public long getRecordsReadTotal() {
    return counts.values().stream().mapToLong(AtomicLong::get).sum();
  }

  @Override
  public long getRecordsRejectedTotal() {
    return counts.entrySet().stream()
        .filter(entry -> entry.getKey().isRejection())
        .mapToLong(entry -> entry.getValue().get())
        .sum();
  }

  @Override
  public Map<String, Long> getRecordsByOutcome() {
    Map<String, Long> byOutcome = new TreeMap<>();
    counts.forEach((outcome, count) -> byOutcome.put(outcome.name(), count.get()));
    return byOutcome;
  }

  @Override
  public long getNewestClaim() {
    return newestClaim;
  }

  @Override
  public Map<String, Long> getEpochs() {
    Map<String, Long> epochs = new TreeMap<>();
    targets.forEach((group, target) -> epochs.put(group, target.position().epoch()));
    return epochs;
  }

  @Override
  public Map<String, Long> getRevisions() {
    Map<String, Long> revisions = new TreeMap<>();
    targets.forEach((group, target) -> revisions.put(group, target.position().revision()));
    return revisions;
  }
}
