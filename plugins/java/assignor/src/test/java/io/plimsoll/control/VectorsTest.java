package io.plimsoll.control;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.InputStream;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The golden vectors of the wire, which plugins in other languages share. */
class VectorsTest {
  /** Each record of each case has the outcome that the vector states, and so has the whole. */
  @TestFactory
  Stream<DynamicTest> controlTopic() throws IOException {
    return cases().stream()
        .map(given -> DynamicTest.dynamicTest((String) given.get("name"), () -> check(given)));
  }

  @SuppressWarnings("unchecked") // the shape of the vectors' file
  private static List<Map<String, Object>> cases() throws IOException {
    try (InputStream in = VectorsTest.class.getResourceAsStream("/vectors/control-topic.json")) {
      return (List<Map<String, Object>>)
          ((Map<String, Object>) Json.parse(in.readAllBytes())).get("cases");
    }
  }

  @SuppressWarnings("unchecked") // the shape of the vectors' file
  private static void check(Map<String, Object> given) {
    Set<String> groups = new HashSet<>((List<String>) given.get("groups"));
    TargetLog log = new TargetLog(groups);
    for (Map<String, Object> record : (List<Map<String, Object>>) given.get("records")) {
      String key = (String) record.get("key");
      Object raw = record.get("raw");
      byte[] value =
          raw != null
              ? ((String) raw).getBytes(UTF_8)
              : record.get("value") == null
                  ? null
                  : Json.write(record.get("value")).getBytes(UTF_8);
      assertEquals(
          record.get("outcome"),
          log.accept((Long) record.get("offset"), key == null ? null : key.getBytes(UTF_8), value)
              .outcome()
              .name(),
          () -> "at offset " + record.get("offset"));
    }
    Map<String, List<Long>> positions = new TreeMap<>();
    log.targets()
        .forEach(
            (group, target) ->
                positions.put(
                    group, List.of(target.position().epoch(), target.position().revision())));
    assertEquals(given.get("targets"), positions);
  }
}
