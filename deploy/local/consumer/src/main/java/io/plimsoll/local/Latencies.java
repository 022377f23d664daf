package io.plimsoll.local;

import java.util.Map;
import java.util.TreeMap;

/**
 * Counts of latencies in buckets that are exact below 16 ms and at most 1/16 wide above: bucket
 * {@code 16 * (e + 1) + m} holds {@code [(16 + m) << e, (17 + m) << e)} ms. deploy/local/history.py
 * reads them.
 */
final class Latencies {
  private static final int SUB = 16;

  private final Map<Integer, Integer> counts = new TreeMap<>();

  void add(long ms) {
    counts.merge(bucket(Math.max(0, ms)), 1, Integer::sum);
  }

  static int bucket(long ms) {
    if (ms < SUB) {
      return (int) ms;
    }
    int exponent = 63 - Long.numberOfLeadingZeros(ms) - 4;
    return SUB * (exponent + 1) + (int) ((ms >> exponent) - SUB);
  }

  /** Gives {@code [[bucket, count], ...]} and forgets the counts. */
  String takeJson() {
    StringBuilder json = new StringBuilder("[");
    counts.forEach((bucket, count) -> json.append(json.length() > 1 ? ",[" : "[").append(bucket).append(',').append(count).append(']'));
    counts.clear();
    return json.append(']').toString();
  }
}
