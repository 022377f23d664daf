package io.plimsoll.local;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer application as anybody writes it: poll, process, commit. It knows nothing of Plimsoll;
 * whether the plugin works is a matter of the class path and of {@code partition.assignment.strategy}
 * in the properties file, its only argument. Its own settings there:
 *
 * <ul>
 *   <li>{@code app.topics} comma-separated topics
 *   <li>{@code app.journal} file to which it writes what it does
 *   <li>{@code app.cap.bytes.per.s} how much it can process, 0 without limit
 *   <li>{@code app.report.ms} how often it reports
 *   <li>{@code app.commit.ms} how often it commits, having reported first
 * </ul>
 *
 * A line {@code cap N} on standard input changes the limit. SIGTERM leaves the group properly.
 */
public final class OrdinaryConsumer implements ConsumerRebalanceListener {
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final Journal journal;
  private final TokenBucket bucket;
  private final long reportMs;
  private final long commitMs;
  private final Collection<String> topics;

  private OrdinaryConsumer(Properties settings) throws IOException {
    topics = Arrays.asList(settings.getProperty("app.topics").split(","));
    reportMs = Long.parseLong(settings.getProperty("app.report.ms", "250"));
    commitMs = Long.parseLong(settings.getProperty("app.commit.ms", "1000"));
    bucket = new TokenBucket(Double.parseDouble(settings.getProperty("app.cap.bytes.per.s", "0")));
    journal = new Journal(settings.getProperty("app.journal"), settings.getProperty(ConsumerConfig.CLIENT_ID_CONFIG));
    Properties kafka = new Properties();
    settings.stringPropertyNames().stream().filter(key -> !key.startsWith("app.")).forEach(key -> kafka.put(key, settings.getProperty(key)));
    kafka.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    journal.note("started", "strategy", kafka.getProperty(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, "default"));
    consumer = new KafkaConsumer<>(kafka, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    try (InputStream file = Files.newInputStream(Path.of(args[0]))) {
      settings.load(file);
    }
    OrdinaryConsumer application = new OrdinaryConsumer(settings);
    CountDownLatch done = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      application.consumer.wakeup();
      try {
        done.await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
    Thread commands = new Thread(application::obey, "commands");
    commands.setDaemon(true);
    commands.start();
    try {
      application.run();
    } finally {
      done.countDown();
    }
  }

  private void run() throws InterruptedException {
    consumer.subscribe(topics, this);
    long reportedMs = System.currentTimeMillis();
    long committedMs = reportedMs;
    try {
      while (true) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        for (ConsumerRecord<byte[], byte[]> record : records) {
          process(record);
        }
        long now = System.currentTimeMillis();
        if (now - reportedMs >= reportMs) {
          reportedMs = now;
          journal.report();
          if (now - committedMs >= commitMs) {
            committedMs = now;
            commit();
          }
        }
      }
    } catch (WakeupException e) {
      journal.report();
      consumer.close(); // revokes, and so reports and commits
      journal.note("stopped", "why", "asked to");
    } catch (KafkaException e) {
      journal.note("failed", "error", e.toString());
      throw e;
    }
  }

  private void commit() {
    consumer.commitAsync((offsets, error) -> {
      if (error != null) {
        journal.note("commit-failed", "error", error.toString());
      }
    });
  }

  private void process(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
    int size = Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    bucket.take(size);
    TopicPartition tp = new TopicPartition(record.topic(), record.partition());
    journal.processed(tp, record.offset(), size, record.timestamp(), System.currentTimeMillis());
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    journal.assigned(consumer.groupMetadata().generationId(), partitions, consumer.assignment());
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    journal.report();
    try {
      consumer.commitSync();
    } catch (KafkaException e) {
      journal.note("commit-failed", "error", e.toString());
    }
    journal.gone("revoked", consumer.groupMetadata().generationId(), partitions);
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    journal.report();
    journal.gone("lost", consumer.groupMetadata().generationId(), partitions);
  }

  /** Follows the commands on standard input until it ends. */
  private void obey() {
    try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        String[] words = line.split(" ");
        if (words[0].equals("cap")) {
          bucket.setRate(Double.parseDouble(words[1]));
          journal.note("cap", "bytes_per_s", words[1]);
        }
      }
    } catch (IOException e) {
      journal.note("failed", "error", e.toString());
    }
  }
}
