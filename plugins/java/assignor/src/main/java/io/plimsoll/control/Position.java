package io.plimsoll.control;

import java.util.Comparator;

/**
 * How far the agent has spoken about a group: which agent (the offset of its claim), then which of
 * its targets.
 */
public record Position(long epoch, long revision) implements Comparable<Position> {
  /** Before any target. */
  public static final Position NONE = new Position(-1, -1);

  private static final Comparator<Position> ORDER =
      Comparator.comparingLong(Position::epoch).thenComparingLong(Position::revision);

  @Override
  public int compareTo(Position other) {
    return ORDER.compare(this, other);
  }

  public boolean isAfter(Position other) {
    return compareTo(other) > 0;
  }
}
