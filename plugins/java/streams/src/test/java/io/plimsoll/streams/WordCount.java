package io.plimsoll.streams;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A stateful application with nothing of Plimsoll in its code: counts the records of each key,
 * exactly once, and writes every new count to an output topic.
 *
 * <p>Arguments: bootstrap servers, application id, instance id, state folder, input topic, output
 * topic, then any number of {@code key=value} for the configuration. Prints {@code state NEW} for
 * each state it enters; ends cleanly on SIGTERM.
 */
public final class WordCount {
  private WordCount() {}

  public static void main(String[] args) throws Exception {
    Properties config = new Properties();
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    config.put(StreamsConfig.CLIENT_ID_CONFIG, args[2]);
    config.put(
        StreamsConfig.STATE_DIR_CONFIG, Files.createDirectories(Path.of(args[3])).toString());
    config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    config.put(StreamsConfig.TASK_ASSIGNOR_CLASS_CONFIG, PlimsollTaskAssignor.class.getName());
    config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
    config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    for (int i = 6; i < args.length; i++) {
      config.put(
          args[i].substring(0, args[i].indexOf('=')), args[i].substring(args[i].indexOf('=') + 1));
    }
    KafkaStreams streams = new KafkaStreams(topology(args[4], args[5]), config);
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.start();
  }

  private static Topology topology(String input, String output) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(output, Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }
}
