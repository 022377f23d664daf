package io.plimsoll.local;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;

/**
 * What the consumer did, one JSON line an event, each handed to the operating system at once: a line
 * survives SIGKILL. Processed records are reported before they are committed, so a committed record
 * is always in the journal.
 */
final class Journal {
  private final FileOutputStream file;
  private final String client;
  private final List<Run> closed = new ArrayList<>();
  private final Map<TopicPartition, Run> open = new HashMap<>();
  /** Last offset and its time of every partition, across reports. */
  private final Map<TopicPartition, long[]> last = new HashMap<>();
  private final Latencies latencies = new Latencies();

  Journal(String path, String client) throws IOException {
    this.file = new FileOutputStream(path, true);
    this.client = client;
  }

  void processed(TopicPartition tp, long offset, int size, long producedMs, long nowMs) {
    latencies.add(nowMs - producedMs);
    Run run = open.get(tp);
    if (run != null && run.continuesAt(offset)) {
      run.add(offset, size, producedMs, nowMs);
      return;
    }
    if (run != null) {
      closed.add(run);
      last.put(tp, new long[] {run.lastOffset(), run.lastMs()});
    }
    long[] before = last.get(tp);
    long previousMs = before != null && before[0] + 1 == offset ? before[1] : 0;
    open.put(tp, new Run(tp.topic(), tp.partition(), offset, size, producedMs, nowMs, previousMs));
  }

  /** Writes what was processed since the last report, if anything. */
  void report() {
    open.forEach((tp, run) -> {
      closed.add(run);
      last.put(tp, new long[] {run.lastOffset(), run.lastMs()});
    });
    open.clear();
    if (closed.isEmpty()) {
      return;
    }
    StringBuilder json = new StringBuilder(",\"runs\":[");
    for (int i = 0; i < closed.size(); i++) {
      json.append(i == 0 ? "" : ",");
      closed.get(i).appendTo(json);
    }
    closed.clear();
    write("processed", json.append("],\"latency\":").append(latencies.takeJson()).toString());
  }

  /** A rebalance gave partitions (perhaps none) and left the consumer with {@code owned}. */
  void assigned(int generation, Collection<TopicPartition> added, Collection<TopicPartition> owned) {
    write("assigned", ",\"generation\":" + generation + ",\"partitions\":" + names(added) + ",\"owned\":" + names(owned));
  }

  /** Partitions go away, by the protocol's leave ({@code revoked}) or without it ({@code lost}). */
  void gone(String event, int generation, Collection<TopicPartition> partitions) {
    write(event, ",\"generation\":" + generation + ",\"partitions\":" + names(partitions));
    partitions.forEach(last::remove);
  }

  void note(String event, String key, String value) {
    write(event, ",\"" + key + "\":" + quoted(value));
  }

  private static String names(Collection<TopicPartition> partitions) {
    Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
    partitions.forEach(tp -> byTopic.computeIfAbsent(tp.topic(), topic -> new TreeSet<>()).add(tp.partition()));
    StringBuilder json = new StringBuilder("{");
    byTopic.forEach((topic, numbers) -> json.append(json.length() > 1 ? "," : "").append(quoted(topic)).append(':').append(numbers));
    return json.append('}').toString();
  }

  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ') {
        json.append(' ');
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }

  private void write(String event, String rest) {
    String line = "{\"event\":\"" + event + "\",\"ms\":" + System.currentTimeMillis() + ",\"client\":" + quoted(client) + rest + "}\n";
    try {
      file.write(line.getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
