package io.plimsoll.assign;

import io.plimsoll.control.BadRecordException;
import io.plimsoll.control.Json;
import io.plimsoll.control.Position;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;

/**
 * The userData of a subscription under the protocol {@code plimsoll}: UTF-8 JSON.
 *
 * <p>{@code {"v":1,"epoch":E,"revision":R,"fallback":"base64"}}: the position of the newest target
 * that the member knows (absent if none), and what its fallback assignor wants to tell the leader
 * (absent if nothing). The agent's nudge member sends {@code
 * {"v":1,"nudge":true,"epoch":E,"revision":R}}.
 *
 * @param position the newest target that the sender knows, or {@link Position#NONE}
 * @param fallback the fallback assignor's own userData, or null
 */
public record SubscriptionData(Position position, boolean nudge, ByteBuffer fallback) {
  private static final long VERSION = 1;

  /** A member adds tens of bytes; more is not ours, and not worth parsing in {@code assign}. */
  private static final int BYTES_MAX = 16_384;

  public ByteBuffer encode() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("v", VERSION);
    if (nudge) {
      fields.put("nudge", true);
    }
    if (!position.equals(Position.NONE)) {
      fields.put("epoch", position.epoch());
      fields.put("revision", position.revision());
    }
    if (fallback != null) {
      fields.put("fallback", Base64.getEncoder().encodeToString(bytes(fallback)));
    }
    return ByteBuffer.wrap(Json.write(fields).getBytes(StandardCharsets.UTF_8));
  }

  /** Reads foreign bytes; what is not in our form is taken for the fallback assignor's. */
  public static SubscriptionData decode(ByteBuffer data) {
    if (data == null) {
      return new SubscriptionData(Position.NONE, false, null);
    }
    try {
      if (data.remaining() <= BYTES_MAX
          && Json.parse(bytes(data)) instanceof Map<?, ?> fields
          && Long.valueOf(VERSION).equals(fields.get("v"))) {
        return new SubscriptionData(
            position(fields),
            Boolean.TRUE.equals(fields.get("nudge")),
            fields.get("fallback") instanceof String text
                ? ByteBuffer.wrap(Base64.getDecoder().decode(text))
                : null);
      }
    } catch (BadRecordException | IllegalArgumentException e) {
      // Not our form, or not base64.
    }
    return new SubscriptionData(Position.NONE, false, data.duplicate());
  }

  /** Whether this is the agent's transient member, which is there only to cause a rebalance. */
  public static boolean isNudge(Subscription subscription) {
    return subscription.topics().isEmpty() && decode(subscription.userData()).nudge();
  }

  private static Position position(Map<?, ?> fields) {
    return fields.get("epoch") instanceof Long epoch
            && fields.get("revision") instanceof Long revision
            && epoch >= 0
            && revision >= 0
        ? new Position(epoch, revision)
        : Position.NONE;
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }
}
