package io.plimsoll.streams;

import io.plimsoll.control.ClientSettings;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the newest state of each application to {@code plimsoll.membership}, in the background.
 *
 * <p>One daemon thread per JVM and cluster. A state that was not written when a newer one comes is
 * dropped; a state that cannot be written is logged and dropped, for the next rebalance brings
 * another.
 */
final class StatePublisher implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(StatePublisher.class);
  private static final Map<String, StatePublisher> SHARED = new ConcurrentHashMap<>();

  /** Brokers refuse records of more than 1 MiB by default; this leaves room for the headers. */
  static final int RECORD_BYTES_MAX = 900_000;

  /** How long a send may take in all, milliseconds. */
  private static final int DELIVERY_TIMEOUT_MS = 30_000;

  private final Map<String, Object> config;
  private final String topic;
  private final Map<String, Supplier<byte[]>> waiting = new LinkedHashMap<>();

  private StatePublisher(Map<String, Object> config, String topic) {
    this.config = config;
    this.topic = topic;
  }

  static StatePublisher shared(Object bootstrapServers, String topic, Map<String, ?> clientConfig) {
    return SHARED.computeIfAbsent(
        bootstrapServers + "|" + topic,
        key -> {
          Map<String, Object> config = ClientSettings.inherit(bootstrapServers, clientConfig);
          config.put(
              ProducerConfig.CLIENT_ID_CONFIG,
              "plimsoll-state-publisher-" + ProcessHandle.current().pid());
          config.put(ProducerConfig.ACKS_CONFIG, "all");
          config.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, DELIVERY_TIMEOUT_MS);
          config.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, DELIVERY_TIMEOUT_MS / 3);
          config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, DELIVERY_TIMEOUT_MS);
          StatePublisher publisher = new StatePublisher(config, topic);
          Thread thread = new Thread(publisher, "plimsoll-state-publisher");
          thread.setDaemon(true);
          thread.start();
          return publisher;
        });
  }

  /** Leaves a state to be encoded and written; returns at once. */
  synchronized void publish(String applicationId, Supplier<byte[]> state) {
    waiting.put(applicationId, state);
    notifyAll();
  }

  private synchronized Map.Entry<String, Supplier<byte[]>> take() throws InterruptedException {
    while (waiting.isEmpty()) {
      wait();
    }
    Map.Entry<String, Supplier<byte[]>> next = waiting.entrySet().iterator().next();
    waiting.remove(next.getKey());
    return Map.entry(next.getKey(), next.getValue());
  }

  /** The thread's whole life; ends only by interruption. */
  @Override
  public void run() {
    try {
      Map.Entry<String, Supplier<byte[]>> first = take();
      try (KafkaProducer<byte[], byte[]> producer =
          new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
        write(producer, first);
        while (true) {
          write(producer, take());
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (RuntimeException | LinkageError e) {
      LOG.error("No states will be published to {} by this process", topic, e);
    }
  }

  private void write(
      KafkaProducer<byte[], byte[]> producer, Map.Entry<String, Supplier<byte[]>> state)
      throws InterruptedException {
    String applicationId = state.getKey();
    try {
      byte[] value = state.getValue().get();
      if (value.length > RECORD_BYTES_MAX) {
        LOG.warn("State of {} not published: {} bytes are too many", applicationId, value.length);
        return;
      }
      byte[] key = applicationId.getBytes(StandardCharsets.UTF_8);
      producer.send(new ProducerRecord<>(topic, key, value)).get();
      LOG.info("Published the state of {} ({} bytes)", applicationId, value.length);
    } catch (ExecutionException | RuntimeException e) {
      LOG.warn("State of {} not published: {}", applicationId, e.toString());
    }
  }
}
