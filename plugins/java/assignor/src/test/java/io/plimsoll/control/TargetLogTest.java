package io.plimsoll.control;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.control.TargetLog.Outcome;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

class TargetLogTest {
  private static final Set<String> GROUPS = Set.of("g", "h");

  private final TargetLog log = new TargetLog(GROUPS);

  static String target(long epoch, long revision) {
    return ("{'v':1,'ms':1,'epoch':%d,'revision':%d,'plan_id':'p','ttl_ms':1,'mode':'enforce',"
            + "'base':{'members':['c1'],'partitions':{'t':1}},'assignment':{'c1':{'t':[0]}},"
            + "'weights':{'t':[1]},'capacity':{'c1':1.0},'rack':{}}")
        .formatted(epoch, revision)
        .replace('\'', '"');
  }

  private static String claim(String topicId) {
    return "{\"v\":1,\"ms\":1,\"agent\":\"a\",\"topic_id\":\"" + topicId + "\"}";
  }

  private Outcome accept(long offset, String key, String value) {
    return accept(log, offset, key, value);
  }

  private static Outcome accept(TargetLog log, long offset, String key, String value) {
    return log.accept(
            offset,
            key == null ? null : key.getBytes(UTF_8),
            value == null ? null : value.getBytes(UTF_8))
        .outcome();
  }

  private Position position(String group) {
    Target target = log.targets().get(group);
    return target == null ? null : target.position();
  }

  /** Only the newest claimant may speak: older epochs are stale, newer ones unclaimed. */
  @Test
  void onlyTheNewestClaimantSpeaks() {
    assertEquals(Outcome.CLAIMED, accept(4, "claim", claim("T")));
    assertEquals(Outcome.ACCEPTED, accept(5, "g", target(4, 1)));
    assertEquals(Outcome.CLAIMED, accept(9, "claim", claim("T")));
    assertEquals(Outcome.REJECTED_STALE_EPOCH, accept(10, "g", target(4, 2)));
    assertEquals(Outcome.REJECTED_UNCLAIMED_EPOCH, accept(11, "g", target(1L << 60, 2)));
    assertEquals(new Position(4, 1), position("g"), "the last good target is kept");
    assertEquals(Outcome.ACCEPTED, accept(12, "g", target(9, 1)), "republished by the new agent");
  }

  /** Within an epoch revisions only grow; the same one again is nothing new. */
  @Test
  void revisionsNeverGoBack() {
    accept(4, "claim", claim("T"));
    assertEquals(Outcome.ACCEPTED, accept(5, "g", target(4, 7)));
    assertEquals(Outcome.REPEATED, accept(6, "g", target(4, 7)));
    assertEquals(Outcome.REJECTED_OLD_REVISION, accept(7, "g", target(4, 6)));
    accept(8, "claim", claim("T"));
    assertEquals(Outcome.REJECTED_OLD_REVISION, accept(9, "g", target(8, 6)));
    assertEquals(Outcome.ACCEPTED, accept(10, "g", target(8, 7)));
  }

  /** A tombstone forgets the target, and what it had reached still binds its agent. */
  @Test
  void tombstone() {
    accept(4, "claim", claim("T"));
    accept(5, "g", target(4, 7));
    assertEquals(Outcome.FORGOTTEN, accept(6, "g", null));
    assertEquals(null, position("g"));
    assertEquals(Outcome.REJECTED_OLD_REVISION, accept(7, "g", target(4, 7)));
    assertEquals(Outcome.ACCEPTED, accept(8, "g", target(4, 8)));
  }

  /** An epoch that nobody claimed is forgotten by the next claim, so it cannot shut agents out. */
  @Test
  void anUnclaimedEpochHeals() {
    assertEquals(Outcome.ACCEPTED, accept(0, "g", target(1L << 60, 5)), "no claim is known yet");
    accept(1, "claim", claim("T"));
    assertEquals(Outcome.ACCEPTED, accept(2, "g", target(1, 1)));
  }

  /** A claim on a re-created topic starts epochs afresh and keeps the targets until then. */
  @Test
  void recreatedTopic() {
    accept(400, "claim", claim("T"));
    accept(401, "g", target(400, 30));
    assertEquals(Outcome.CLAIMED, accept(2, "claim", claim("U")));
    assertEquals(new Position(400, 30), position("g"));
    assertEquals(Outcome.ACCEPTED, accept(3, "g", target(2, 1)));
  }

  /** A new reading of the same topic cannot take a group back; of another topic it can. */
  @Test
  void inheritance() {
    accept(4, "claim", claim("T"));
    accept(6, "g", target(4, 2));
    TargetLog truncated = new TargetLog(GROUPS);
    accept(truncated, 4, "claim", claim("T"));
    accept(truncated, 5, "g", target(4, 1));
    truncated.inherit(log);
    assertEquals(new Position(4, 2), truncated.targets().get("g").position());

    TargetLog recreated = new TargetLog(GROUPS);
    accept(recreated, 0, "claim", claim("U"));
    accept(recreated, 1, "g", target(0, 1));
    recreated.inherit(log);
    assertEquals(new Position(0, 1), recreated.targets().get("g").position());
  }

  /** Other groups' records are not even parsed. */
  @Test
  void foreignGroup() {
    assertEquals(Outcome.FOREIGN, accept(1, "other", "garbage"));
  }

  /** Garbage under any key is counted and changes nothing. */
  @Property
  void garbageChangesNothing(@ForAll byte[] key, @ForAll byte[] value, @ForAll boolean ours) {
    accept(4, "claim", claim("T"));
    accept(5, "g", target(4, 1));
    Outcome outcome = log.accept(6, ours ? "g".getBytes(UTF_8) : key, value).outcome();
    assertTrue(outcome.isRejection() || outcome == Outcome.FOREIGN, outcome::toString);
    assertEquals(new Position(4, 1), position("g"));
    assertEquals(4, log.newestClaim());
  }

  /** A good target with one byte changed is accepted or rejected, and never throws. */
  @Property
  void mutatedTarget(@ForAll long seed, @ForAll byte replacement) {
    byte[] value = target(4, 1).getBytes(UTF_8);
    value[new Random(seed).nextInt(value.length)] = replacement;
    log.accept(5, "g".getBytes(UTF_8), value);
  }

  /** Whatever is written, each group's position only grows, and only by the newest claimant. */
  @Property
  void positionsOnlyGrow(@ForAll long seed) {
    TargetLog any = new TargetLog(GROUPS);
    Map<String, Position> reached = new HashMap<>();
    for (Rec record : randomLog(new Random(seed))) {
      long claim = any.newestClaim();
      Outcome outcome = accept(any, record.offset, record.key, record.value);
      if (outcome == Outcome.ACCEPTED) {
        Position now = any.targets().get(record.key).position();
        assertTrue(now.isAfter(reached.getOrDefault(record.key, Position.NONE)));
        assertEquals(claim, now.epoch());
        reached.put(record.key, now);
      }
    }
  }

  /** Compacting a log that an agent wrote changes nothing about the state it folds to. */
  @Property
  void compactionChangesNothing(@ForAll long seed) {
    List<Rec> whole = agentLog(new Random(seed));
    Map<String, Rec> newest = new LinkedHashMap<>();
    for (Rec record : whole) {
      newest.remove(record.key);
      newest.put(record.key, record);
    }
    assertEquals(positions(whole), positions(newest.values()));
  }

  private record Rec(long offset, String key, String value) {}

  private static Map<String, Position> positions(Iterable<Rec> records) {
    TargetLog log = new TargetLog(GROUPS);
    records.forEach(record -> accept(log, record.offset, record.key, record.value));
    Map<String, Position> positions = new HashMap<>();
    log.targets().forEach((group, target) -> positions.put(group, target.position()));
    return positions;
  }

  private static List<Rec> randomLog(Random random) {
    List<Rec> records = new ArrayList<>();
    records.add(new Rec(0, "claim", claim("T")));
    for (int offset = 1; offset < 40; offset++) {
      String group = random.nextBoolean() ? "g" : "h";
      switch (random.nextInt(6)) {
        case 0 -> records.add(new Rec(offset, "claim", claim("T")));
        case 1 -> records.add(new Rec(offset, group, null));
        default ->
            records.add(
                new Rec(offset, group, target(random.nextInt(offset + 1), random.nextInt(8))));
      }
    }
    return records;
  }

  /** As an agent writes: each takeover republishes every group's last target under its claim. */
  private static List<Rec> agentLog(Random random) {
    List<Rec> records = new ArrayList<>();
    Map<String, Long> revisions = new LinkedHashMap<>();
    long epoch = 0;
    records.add(new Rec(0, "claim", claim("T")));
    for (int i = 0; i < 30; i++) {
      long offset = records.size();
      String group = random.nextBoolean() ? "g" : "h";
      switch (random.nextInt(5)) {
        case 0 -> {
          epoch = offset;
          records.add(new Rec(offset, "claim", claim("T")));
          for (Map.Entry<String, Long> last : revisions.entrySet()) {
            records.add(new Rec(records.size(), last.getKey(), target(epoch, last.getValue())));
          }
        }
        case 1 -> {
          revisions.remove(group);
          records.add(new Rec(offset, group, null));
        }
        default -> {
          revisions.put(group, (long) i);
          records.add(new Rec(offset, group, target(epoch, i)));
        }
      }
    }
    return records;
  }
}
