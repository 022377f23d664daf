package io.plimsoll.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.plimsoll.assign.Intent;
import io.plimsoll.assign.Repair.Lead;
import io.plimsoll.control.Target;
import io.plimsoll.control.Target.TaskShare;
import io.plimsoll.streams.NextStep.Placement;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.junit.jupiter.api.Test;

class NextStepTest {
  private static Placement step(Fake fake, Target target) {
    Application application = Application.of(fake);
    return NextStep.towards(Wanted.of(target, Lead.TARGET, application, Intent.NONE), application);
  }

  private static Placement sticky(Fake fake) {
    Application application = Application.of(fake);
    return NextStep.towards(
        Wanted.of(new StickyTaskAssignor().assign(fake), application), application);
  }

  /** Any target or none gives each task one active, and as many standbys as there can be. */
  @Property
  void valid(@ForAll long seed) {
    Random random = new Random(seed);
    Fake fake = Fake.random(random);
    Target target = random.nextInt(5) == 0 ? null : fake.randomTarget(random);
    assertValid(fake, step(fake, target));
    assertValid(fake, sticky(fake));
    Application application = Application.of(fake);
    assertValid(
        fake,
        NextStep.towards(Wanted.of(target, Lead.OWNERS, application, Intent.NONE), application));
  }

  private static void assertValid(Fake fake, Placement placement) {
    assertEquals(fake.tasks.keySet(), placement.active().keySet());
    int needed = Math.min(fake.standbys, fake.instances.size() - 1);
    placement
        .copies()
        .forEach(
            (task, processes) -> {
              assertFalse(processes.contains(placement.active().get(task)), "beside its active");
              if (fake.tasks.get(task).isStateful()) {
                assertTrue(processes.size() >= needed, () -> task + " has too few standbys");
              } else {
                assertEquals(Set.of(), processes);
              }
            });
  }

  /** No active task moves to a process that lags while its owner is there and up to date. */
  @Property
  void nobodyStopsToRestore(@ForAll long seed) {
    Random random = new Random(seed);
    Fake fake = Fake.random(random);
    Application application = Application.of(fake);
    Map<TaskId, Process> owners = application.previousOwners();
    step(fake, fake.randomTarget(random))
        .active()
        .forEach(
            (task, process) -> {
              if (owners.containsKey(task) && fake.tasks.get(task).isStateful()) {
                assertTrue(process.isCaughtUp(task, 10_000), () -> task + " would restore");
              }
            });
  }

  /** The order of instances and tasks does not matter: the same state gives the same step. */
  @Property(tries = 200)
  void deterministic(@ForAll long seed) {
    Random random = new Random(seed);
    Fake fake = Fake.random(random);
    Target target = fake.randomTarget(random);
    assertEquals(step(fake, target), step(fake, target));
  }

  /** In a closed loop the target is reached in about as many rounds as the warmup budget takes. */
  @Property(tries = 300)
  void converges(@ForAll long seed) {
    Random random = new Random(seed);
    Fake fake = Fake.random(random);
    fake.apply(step(fake, null), true);
    Target target = fake.randomTarget(random);
    boolean atOnce = random.nextBoolean();
    Intent intent = Intent.NONE;
    int rounds = 0;
    boolean complete;
    do {
      Application application = Application.of(fake);
      Wanted wanted = Wanted.of(target, Lead.TARGET, application, intent);
      intent = wanted.intent();
      Placement placement = NextStep.towards(wanted, application);
      complete = fake.apply(placement, true, atOnce) && placement.complete();
      rounds++;
    } while (!complete && rounds < 100);
    int most = 2 + fake.tasks.size() / fake.maxWarmups;
    assertTrue(rounds <= (atOnce ? most : 2 * most), "rounds: " + rounds);
    Map<TaskId, Process> owners = Application.of(fake).previousOwners();
    assertEquals(owners, step(fake, target).active(), "at rest");
  }

  private static final Target TWO =
      Fake.target(
          Map.of(
              "a", new TaskShare(List.of("0_0", "1_0"), List.of("1_1"), List.of()),
              "b", new TaskShare(List.of("0_1", "1_1"), List.of("1_0"), List.of())));

  private static Fake two() {
    Fake fake = new Fake(2, 2);
    fake.join("a");
    fake.join("b");
    fake.apply(step(fake, TWO), true);
    return fake;
  }

  private static List<String> names(Collection<Process> processes) {
    return processes.stream().map(Process::stableId).sorted().toList();
  }

  /** A target that fits is followed to the letter. */
  @Test
  void exact() {
    Fake fake = two();
    Placement placement = step(fake, TWO);
    assertEquals("a", placement.active().get(new TaskId(1, 0)).stableId());
    assertEquals(List.of("b"), names(placement.copies().get(new TaskId(1, 0))));
    assertEquals(0, placement.warmups());
    assertTrue(placement.complete());
  }

  /** When a process goes, its tasks go where their standbys are. */
  @Test
  void leaver() {
    Fake fake = two();
    fake.join("c");
    fake.instances.remove("a");
    Placement placement = step(fake, TWO);
    assertEquals("b", placement.active().get(new TaskId(1, 0)).stableId());
    assertEquals(List.of("c"), names(placement.copies().get(new TaskId(1, 0))));
  }

  /** A process that the target does not name warms up first, and then gets its share. */
  @Test
  void joiner() {
    Fake fake = new Fake(2, 12);
    fake.tasks.keySet().removeIf(task -> task.subtopology() == 0);
    fake.join("a");
    Target target =
        Fake.target(
            Map.of(
                "a",
                new TaskShare(
                    fake.tasks.keySet().stream().map(TaskId::toString).toList(),
                    List.of(),
                    List.of())));
    fake.standbys = 0;
    fake.apply(step(fake, target), true);
    fake.join("b");
    Placement first = step(fake, target);
    assertFalse(first.complete());
    assertEquals(2, first.warmups(), "max.warmup.replicas");
    assertEquals(Set.of("a"), Set.copyOf(names(first.active().values())));
    fake.apply(first, true);
    Placement next = first;
    for (int round = 0; round < 5 && !next.complete(); round++) {
      next = step(fake, target);
      fake.apply(next, true);
    }
    assertTrue(next.complete());
    assertEquals(6, fake.instances.get("b").active.size());
  }

  /** While nobody is caught up the owner goes on, unless another is nearer by a lag that counts. */
  @Test
  void restoringOwner() {
    TaskId task = new TaskId(1, 0);
    Fake fake = new Fake(2, 1);
    fake.join("a").active.add(task);
    fake.join("b");
    Target onB =
        Fake.target(Map.of("b", new TaskShare(List.of("0_0", "1_0"), List.of(), List.of())));
    fake.instances.get("a").lags.put(task, 30_000L);
    fake.instances.get("b").lags.put(task, 20_000L);
    assertEquals("a", step(fake, onB).active().get(task).stableId());
    fake.instances.get("b").lags.put(task, 19_999L);
    assertEquals("b", step(fake, onB).active().get(task).stableId());
  }

  /** Standbys go to other tags first, where tags are configured. */
  @Test
  void tags() {
    Fake fake = new Fake(2, 1);
    fake.tags = List.of("zone");
    fake.join("a").tags.put("zone", "z1");
    fake.join("b").tags.put("zone", "z1");
    fake.join("c").tags.put("zone", "z2");
    fake.instances.get("a").active.add(new TaskId(1, 0));
    fake.instances.get("b").standby.add(new TaskId(1, 0));
    assertEquals(List.of("c"), names(step(fake, null).copies().get(new TaskId(1, 0))));
  }

  /** Without a target, and with everybody caught up, the placement is the sticky assignor's. */
  @Test
  void fallback() {
    Fake fake = two();
    Placement placement = sticky(fake);
    assertTrue(placement.complete());
    assertEquals("a", placement.active().get(new TaskId(1, 0)).stableId());
  }

  /** The wait doubles while nothing changes, starts again after a change, and has an end. */
  @Test
  void followupPace() {
    Memory memory = new Memory();
    assertEquals(10_000, memory.followupMs("x", 60_000));
    assertEquals(20_000, memory.followupMs("x", 60_000));
    assertEquals(40_000, memory.followupMs("x", 60_000));
    assertEquals(60_000, memory.followupMs("x", 60_000));
    assertEquals(60_000, memory.followupMs("x", 60_000));
    assertEquals(10_000, memory.followupMs("y", 60_000));
  }
}
