package io.plimsoll.control;

import io.plimsoll.control.TargetDecoder.Claim;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * The control topic folded into what may be followed: a pure state, one record at a time.
 *
 * <p>Promises: the last good target of each group is kept until a better one or a tombstone comes
 * (fail-static, S6); epoch and revision of a group never go back (S4); no target is accepted from
 * an agent other than the newest claimant (S5). A bad record changes nothing. It does no I/O and
 * knows no clock.
 *
 * <p>An epoch is the offset of a claim. So once a claim is known, a target's epoch must be exactly
 * that offset: an older one comes from a fenced agent, a newer one from nobody (and, were it
 * accepted, would shut out every later target).
 */
final class TargetLog {
  /** The key of claims; every other key is a group id. */
  static final String CLAIM_KEY = "claim";

  /** What became of one record. */
  enum Outcome {
    ACCEPTED,
    CLAIMED,
    FORGOTTEN,
    /** The newest target once more: nothing new. */
    REPEATED,
    /** Another group's record: not even parsed. */
    FOREIGN,
    REJECTED_KEY,
    REJECTED_SIZE,
    REJECTED_MALFORMED,
    REJECTED_VERSION,
    REJECTED_STALE_EPOCH,
    REJECTED_UNCLAIMED_EPOCH,
    REJECTED_OLD_REVISION;

    boolean isRejection() {
      return name().startsWith("REJECTED_");
    }
  }

  /** What became of one record, and why where that needs words. */
  record Verdict(Outcome outcome, String why) {}

  private final Set<String> groups;
  private final Map<String, Target> targets = new HashMap<>();

  /** The furthest position accepted of each group; outlives a tombstone. */
  private final Map<String, Position> reached = new HashMap<>();

  private long newestClaim = -1;
  private String topicId;

  /**
   * @param groups the group ids to keep; the rest of the topic is of no use to this process
   */
  TargetLog(Set<String> groups) {
    this.groups = groups;
  }

  Verdict accept(long offset, byte[] key, byte[] value) {
    String name = key == null ? null : decodeKey(key);
    if (name == null || name.isEmpty()) {
      return new Verdict(Outcome.REJECTED_KEY, "no readable key");
    }
    if (value != null && value.length > TargetDecoder.RECORD_BYTES_MAX) {
      return new Verdict(Outcome.REJECTED_SIZE, value.length + " bytes");
    }
    if (name.equals(CLAIM_KEY)) {
      return value == null ? new Verdict(Outcome.REJECTED_KEY, "tombstone") : claim(offset, value);
    }
    if (!groups.contains(name)) {
      return new Verdict(Outcome.FOREIGN, "");
    }
    if (value == null) {
      targets.remove(name);
      return new Verdict(Outcome.FORGOTTEN, "tombstone");
    }
    return target(name, value);
  }

  private Verdict claim(long offset, byte[] value) {
    try {
      if (TargetDecoder.version(value) != TargetDecoder.VERSION) {
        return new Verdict(Outcome.REJECTED_VERSION, "claim");
      }
      Claim claim = TargetDecoder.claim(value);
      if (topicId != null && claim.topicId() != null && !topicId.equals(claim.topicId())) {
        // The topic was re-created: its offsets, and so its epochs, start again from 0.
        reached.clear();
        newestClaim = -1;
      }
      topicId = claim.topicId() == null ? topicId : claim.topicId();
      newestClaim = Math.max(newestClaim, offset);
      return new Verdict(Outcome.CLAIMED, "");
    } catch (BadRecordException e) {
      return new Verdict(Outcome.REJECTED_MALFORMED, e.getMessage());
    }
  }

  private Verdict target(String group, byte[] value) {
    Target target;
    try {
      if (TargetDecoder.version(value) != TargetDecoder.VERSION) {
        return new Verdict(Outcome.REJECTED_VERSION, "target");
      }
      target = TargetDecoder.target(value);
    } catch (BadRecordException e) {
      return new Verdict(Outcome.REJECTED_MALFORMED, e.getMessage());
    }
    Position position = target.position();
    if (newestClaim >= 0 && position.epoch() != newestClaim) {
      return new Verdict(
          position.epoch() < newestClaim
              ? Outcome.REJECTED_STALE_EPOCH
              : Outcome.REJECTED_UNCLAIMED_EPOCH,
          "epoch " + position.epoch() + ", newest claim " + newestClaim);
    }
    Position before = reachedByClaimants(group);
    if (targets.containsKey(group) && position.equals(before)) {
      return new Verdict(Outcome.REPEATED, "");
    }
    // A tombstone frees the revision but not the epoch: a new agent may not know the old count.
    boolean goesOn =
        targets.containsKey(group)
            ? position.epoch() >= before.epoch() && position.revision() >= before.revision()
            : position.isAfter(before);
    if (!goesOn) {
      return new Verdict(Outcome.REJECTED_OLD_REVISION, position + " after " + before);
    }
    targets.put(group, target);
    reached.put(group, position);
    return new Verdict(Outcome.ACCEPTED, "");
  }

  /** A position beyond the newest claim was never spoken by an agent and binds nobody. */
  private Position reachedByClaimants(String group) {
    Position position = reached.getOrDefault(group, Position.NONE);
    return newestClaim >= 0 && position.epoch() > newestClaim ? Position.NONE : position;
  }

  /**
   * Takes over from the fold of an earlier reading of the same topic: a group that this reading
   * found at an earlier position keeps the target it had. If the topic is known to be another one,
   * nothing is taken over.
   */
  void inherit(TargetLog earlier) {
    if (!Objects.equals(topicId, earlier.topicId)) {
      return;
    }
    newestClaim = Math.max(newestClaim, earlier.newestClaim);
    for (String group : Set.copyOf(targets.keySet())) {
      Position before = earlier.reachedByClaimants(group);
      if (before.isAfter(reached.get(group)) && earlier.targets.containsKey(group)) {
        targets.put(group, earlier.targets.get(group));
        reached.put(group, before);
      }
    }
  }

  /** The groups that it keeps. */
  Set<String> groups() {
    return groups;
  }

  /** The targets to follow now, by group id. */
  Map<String, Target> targets() {
    return Map.copyOf(targets);
  }

  long newestClaim() {
    return newestClaim;
  }

  private static String decodeKey(byte[] key) {
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(key)).toString();
    } catch (CharacterCodingException e) {
      return null;
    }
  }
}
