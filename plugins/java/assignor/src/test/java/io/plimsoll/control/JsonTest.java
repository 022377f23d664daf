package io.plimsoll.control;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  /** What is written is read back equal. */
  @Property
  void roundTrip(@ForAll long seed) {
    Object value = random(new Random(seed), 0);
    assertEquals(value, Json.parse(Json.write(value).getBytes(UTF_8)));
  }

  /** Any bytes give a value or a BadRecordException, nothing else. */
  @Property
  void anyBytes(@ForAll byte[] bytes) {
    parses(bytes);
  }

  /** One changed byte in a good document gives a value or a BadRecordException, nothing else. */
  @Property
  void mutatedDocument(@ForAll long seed, @ForAll byte replacement) {
    Random random = new Random(seed);
    byte[] bytes = Json.write(random(random, 0)).getBytes(UTF_8);
    bytes[random.nextInt(bytes.length)] = replacement;
    parses(bytes);
  }

  /** Text that is nearly JSON is refused. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":2}",
        "{a:1}",
        "01",
        "-",
        "1.",
        "1e",
        "+1",
        ".5",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"abc",
        "tru",
        "nul",
        "1 2",
        "[1 2]",
        "{\"a\" 1}",
        "\"\\u１２３４\""
      })
  void refused(String text) {
    assertThrows(BadRecordException.class, () -> Json.parse(text.getBytes(UTF_8)));
  }

  /** Nesting beyond the bound is refused, not a stack overflow. */
  @Test
  void depth() {
    byte[] deep = "[".repeat(100_000).getBytes(UTF_8);
    assertThrows(BadRecordException.class, () -> Json.parse(deep));
  }

  /** Bytes that are not UTF-8 are refused, not replaced. */
  @Test
  void notUtf8() {
    assertThrows(
        BadRecordException.class, () -> Json.parse(new byte[] {'"', (byte) 0xc3, '(', '"'}));
  }

  /** Numbers keep their value: whole ones as longs, the rest as doubles. */
  @Test
  void numbers() {
    assertEquals(
        List.of(0L, -12L, 1.5, 100.0, 1e20),
        Json.parse("[0,-12,1.5,1e2,100000000000000000000]".getBytes(UTF_8)));
  }

  private static void parses(byte[] bytes) {
    try {
      Json.parse(bytes);
    } catch (BadRecordException expected) {
      // The only way out besides a value.
    }
  }

  private static Object random(Random random, int depth) {
    switch (random.nextInt(depth > 4 ? 5 : 7)) {
      case 0:
        return null;
      case 1:
        return random.nextBoolean();
      case 2:
        return random.nextLong() % 1_000_000_000_000_000L;
      case 3:
        return random.nextGaussian() * 1e6;
      case 4:
        return text(random);
      case 5:
        List<Object> list = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) {
          list.add(random(random, depth + 1));
        }
        return list;
      default:
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
          map.put(text(random), random(random, depth + 1));
        }
        return map;
    }
  }

  private static String text(Random random) {
    StringBuilder text = new StringBuilder();
    for (int i = random.nextInt(6); i > 0; i--) {
      text.appendCodePoint("a\"\\\n\u0001é€😀/".codePoints().toArray()[random.nextInt(9)]);
    }
    return text.toString();
  }
}
