package io.plimsoll.streams;

import java.util.Map;
import java.util.SortedSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;

/**
 * One instance of a Streams application, as the group's leader sees it.
 *
 * @param stableId the name by which targets know it
 * @param lags stateful task to the records that its copy here is behind, or a sentinel
 */
record Process(ProcessId id, String stableId, KafkaStreamsState state, Map<TaskId, Long> lags) {
  /** The task runs here as the active one: it is at the end by definition. */
  private static final long RUNNING = -2;

  /** How Streams names the consumers of its threads: the client id, then this. */
  private static final Pattern THREAD = Pattern.compile("^(.+)-StreamThread-\\d+-consumer");

  /** A static member's id: instance id, thread, UUID. */
  private static final Pattern STATIC_MEMBER =
      Pattern.compile("^(.+)-\\d+-[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$");

  static Process of(KafkaStreamsState state) {
    return new Process(state.processId(), stableId(state), state, state.statefulTasksToLagSums());
  }

  /** {@code application.server}, else the client id that the threads' names begin with. */
  private static String stableId(KafkaStreamsState state) {
    if (state.hostInfo().isPresent()) {
      return state.hostInfo().get().host() + ":" + state.hostInfo().get().port();
    }
    for (String consumer : state.consumerClientIds()) {
      for (Pattern pattern : new Pattern[] {THREAD, STATIC_MEMBER}) {
        Matcher matcher = pattern.matcher(consumer);
        if (matcher.find()) {
          return matcher.group(1);
        }
      }
    }
    return state.processId().id().toString();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Process process && process.id.equals(id);
  }

  @Override
  public int hashCode() {
    return id.hashCode();
  }

  int threads() {
    return Math.max(1, state.numProcessingThreads());
  }

  SortedSet<TaskId> previousActive() {
    return state.previousActiveTasks();
  }

  /** Whether it has state of the task on disk or in memory, from any role. */
  boolean holds(TaskId task) {
    return state.previousActiveTasks().contains(task)
        || state.previousStandbyTasks().contains(task);
  }

  /** Whether it could run the task without restoring for long; an unknown lag is not. */
  boolean isCaughtUp(TaskId task, long acceptableLag) {
    long lag = lags.getOrDefault(task, 0L);
    return lag == RUNNING || acceptableLag == Long.MAX_VALUE || (lag >= 0 && lag <= acceptableLag);
  }

  /** Records to restore before it could run the task; unknown lags are worst. */
  long distance(TaskId task) {
    long lag = lags.getOrDefault(task, 0L);
    return lag == RUNNING ? 0 : lag < 0 ? Long.MAX_VALUE : lag;
  }
}
