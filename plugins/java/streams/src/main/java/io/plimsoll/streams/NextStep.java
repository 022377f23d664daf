package io.plimsoll.streams;

import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import org.apache.kafka.streams.processor.TaskId;

/**
 * The step that may be taken now towards what is wanted: no task stops to restore its state while
 * someone else is ready to run it.
 *
 * <p>A stateful task whose wanted process is not caught up (by {@code acceptable.recovery.lag})
 * stays where a process is, its previous owner first; the wanted one gets a copy to warm up, at
 * most {@code max.warmup.replicas} of them at a time (KIP-441). Then each task with a changelog
 * gets its standbys: those that are wanted, and as many more as {@code num.standby.replicas} asks
 * for and processes allow. It is total: any wanted placement gives a valid one.
 */
final class NextStep {
  /**
   * @param active every task to its process
   * @param copies tasks to their other copies, warmups included
   * @param warmups how many copies are there only to become active
   * @param complete whether every active task is where it is wanted
   */
  record Placement(
      SortedMap<TaskId, Process> active,
      SortedMap<TaskId, Set<Process>> copies,
      int warmups,
      boolean complete) {}

  private final Application application;
  private final Wanted wanted;
  private final Map<TaskId, Process> previous;
  private final SortedMap<TaskId, Process> active = new TreeMap<>();
  private final SortedMap<TaskId, Set<Process>> copies = new TreeMap<>();
  private final Map<Process, Integer> tasksOf = new HashMap<>();
  private int warmups;
  private boolean complete = true;

  private NextStep(Wanted wanted, Application application) {
    this.application = application;
    this.wanted = wanted;
    this.previous = application.previousOwners();
  }

  static Placement towards(Wanted wanted, Application application) {
    NextStep step = new NextStep(wanted, application);
    step.placeActives();
    step.placeWantedCopies();
    step.fillStandbys();
    return new Placement(step.active, step.copies, step.warmups, step.complete);
  }

  private void placeActives() {
    application.tasks().keySet().forEach(task -> copies.put(task, new LinkedHashSet<>()));
    int budget = application.configs().maxWarmupReplicas();
    for (TaskId task : application.tasks().keySet()) {
      Process goal = wanted.active().get(task);
      Process ready = readyFor(task, goal);
      place(task, ready);
      if (ready != goal) {
        complete = false;
        boolean planned = wantsCopy(task, goal);
        if (planned || budget > 0) {
          budget -= planned ? 0 : 1;
          warmups++;
          copy(task, goal);
        }
      }
    }
  }

  private boolean wantsCopy(TaskId task, Process process) {
    return Stream.of(wanted.standby(), wanted.warmup())
        .anyMatch(map -> map.getOrDefault(task, List.of()).contains(process));
  }

  /**
   * The wanted process if it can run the task at once, else one that can, else whoever is nearest.
   * An owner that restores goes on unless another is nearer by more than the acceptable lag: what
   * is no lag worth waiting for is none worth a move.
   */
  private Process readyFor(TaskId task, Process goal) {
    long acceptable = application.configs().acceptableRecoveryLag();
    if (!application.isLogged(task) || goal.isCaughtUp(task, acceptable)) {
      return goal;
    }
    Process owner = previous.get(task);
    Comparator<Process> order =
        Comparator.<Process>comparingInt(p -> p.isCaughtUp(task, acceptable) ? 0 : 1)
            .thenComparingLong(
                p -> {
                  long start = p == owner ? acceptable : 0;
                  return p.isCaughtUp(task, acceptable) ? 0 : p.distance(task) - start;
                })
            .thenComparingInt(p -> p == owner ? 0 : p == goal ? 1 : 2)
            .thenComparingDouble(this::load);
    return application.processes().stream().min(order).orElse(goal);
  }

  private void placeWantedCopies() {
    wanted.standby().forEach((task, processes) -> processes.forEach(p -> copy(task, p)));
    wanted
        .warmup()
        .forEach(
            (task, processes) -> {
              for (Process process : processes) {
                warmups += copy(task, process) ? 1 : 0;
              }
            });
  }

  /** Adds a copy where there can be one; returns whether it is new. */
  private boolean copy(TaskId task, Process process) {
    boolean isNew =
        application.isLogged(task) && active.get(task) != process && copies.get(task).add(process);
    if (isNew) {
      tasksOf.merge(process, 1, Integer::sum);
    }
    return isNew;
  }

  private void place(TaskId task, Process process) {
    active.put(task, process);
    tasksOf.merge(process, 1, Integer::sum);
  }

  private double load(Process process) {
    return (double) tasksOf.getOrDefault(process, 0) / process.threads();
  }

  private void fillStandbys() {
    int needed =
        Math.min(application.configs().numStandbyReplicas(), application.processes().size() - 1);
    for (TaskId task : application.tasks().keySet()) {
      while (application.isLogged(task) && copies.get(task).size() < needed) {
        copy(task, bestStandby(task));
      }
    }
  }

  /**
   * Most different tags first (KIP-708), then whoever has state already, then another rack, then
   * the least loaded.
   */
  private Process bestStandby(TaskId task) {
    Set<Process> holders = new HashSet<>(copies.get(task));
    holders.add(active.get(task));
    List<String> keys = application.configs().rackAwareAssignmentTags();
    ToLongFunction<Process> sharedTags =
        p ->
            keys.stream()
                .filter(key -> holders.stream().anyMatch(holder -> sameTag(holder, p, key)))
                .count();
    return application.processes().stream()
        .filter(process -> !holders.contains(process))
        .min(
            Comparator.comparingLong(sharedTags)
                .thenComparingInt(p -> p.holds(task) ? 0 : 1)
                .thenComparingInt(p -> holders.stream().anyMatch(h -> sameRack(h, p)) ? 1 : 0)
                .thenComparingDouble(this::load))
        .orElseThrow();
  }

  private static boolean sameTag(Process a, Process b, String key) {
    String value = a.state().clientTags().get(key);
    return value != null && value.equals(b.state().clientTags().get(key));
  }

  private static boolean sameRack(Process a, Process b) {
    return a.state().rackId().isPresent() && a.state().rackId().equals(b.state().rackId());
  }
}
