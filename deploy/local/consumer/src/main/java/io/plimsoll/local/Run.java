package io.plimsoll.local;

/** Records of one partition processed in offset order without a hole. */
final class Run {
  private final String topic;
  private final int partition;
  private final long firstOffset;
  private final long firstMs;
  private final long firstProducedMs;
  private long lastOffset;
  private long lastMs;
  private long bytes;
  private long waitMsMax;

  /**
   * Starts with one record. {@code previousMs} is when the record before it was processed by this
   * consumer, or 0 if it did not process that one.
   */
  Run(String topic, int partition, long offset, int size, long producedMs, long nowMs, long previousMs) {
    this.topic = topic;
    this.partition = partition;
    this.firstOffset = offset;
    this.firstMs = nowMs;
    this.firstProducedMs = producedMs;
    this.lastOffset = offset;
    this.lastMs = nowMs;
    this.bytes = size;
    this.waitMsMax = previousMs == 0 ? 0 : nowMs - Math.max(previousMs, producedMs);
  }

  /** Says whether this offset is the next one. */
  boolean continuesAt(long offset) {
    return offset == lastOffset + 1;
  }

  void add(long offset, int size, long producedMs, long nowMs) {
    // How long a record that was there waited although its predecessor was done.
    waitMsMax = Math.max(waitMsMax, nowMs - Math.max(lastMs, producedMs));
    lastOffset = offset;
    lastMs = nowMs;
    bytes += size;
  }

  long lastOffset() {
    return lastOffset;
  }

  long lastMs() {
    return lastMs;
  }

  /** Columns as deploy/local/history.py expects them. */
  void appendTo(StringBuilder json) {
    json.append("[\"").append(topic).append("\",").append(partition).append(',').append(firstOffset).append(',').append(lastOffset)
        .append(',').append(bytes).append(',').append(firstMs).append(',').append(lastMs).append(',').append(firstProducedMs)
        .append(',').append(waitMsMax).append(']');
  }
}
