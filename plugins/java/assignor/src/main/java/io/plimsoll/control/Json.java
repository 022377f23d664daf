package io.plimsoll.control;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A strict JSON reader and writer (RFC 8259), small enough to load in a few milliseconds.
 *
 * <p>Objects become {@link Map} in document order, arrays {@link List}, whole numbers {@link Long}
 * where they fit, other numbers {@link Double}, and {@code null} stays null. Refused besides plain
 * syntax errors: bytes that are not UTF-8, a key that occurs twice, nesting deeper than {@link
 * #DEPTH_MAX}, numbers that are not finite. Size is the caller's to bound.
 */
public final class Json {
  /** Records nest four deep; the bound keeps hostile input from exhausting the stack. */
  public static final int DEPTH_MAX = 32;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * Parses one whole document.
   *
   * @throws BadRecordException if the bytes are not exactly one JSON value
   */
  public static Object parse(byte[] bytes) {
    Json json = new Json(decode(bytes));
    Object value = json.value(0);
    json.space();
    if (json.at < json.text.length()) {
      throw json.error("text after the value");
    }
    return value;
  }

  /** Writes maps, lists, strings, finite numbers, booleans and null; keys keep the map's order. */
  public static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private static String decode(byte[] bytes) {
    try {
      return StandardCharsets.UTF_8
          .newDecoder()
          .onMalformedInput(CodingErrorAction.REPORT)
          .onUnmappableCharacter(CodingErrorAction.REPORT)
          .decode(ByteBuffer.wrap(bytes))
          .toString();
    } catch (CharacterCodingException e) {
      throw new BadRecordException("", "not UTF-8");
    }
  }

  private Object value(int depth) {
    if (depth > DEPTH_MAX) {
      throw error("nested deeper than " + DEPTH_MAX);
    }
    space();
    char first = peek();
    switch (first) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        return word("true", Boolean.TRUE);
      case 'f':
        return word("false", Boolean.FALSE);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> object = new LinkedHashMap<>();
    at++;
    space();
    if (peek() == '}') {
      at++;
      return object;
    }
    while (true) {
      space();
      if (peek() != '"') {
        throw error("expected a key");
      }
      String key = string();
      if (object.containsKey(key)) {
        throw error("key \"" + key + "\" occurs twice");
      }
      space();
      expect(':');
      object.put(key, value(depth + 1));
      space();
      if (peek() == '}') {
        at++;
        return object;
      }
      expect(',');
    }
  }

  private List<Object> array(int depth) {
    List<Object> array = new ArrayList<>();
    at++;
    space();
    if (peek() == ']') {
      at++;
      return array;
    }
    while (true) {
      array.add(value(depth + 1));
      space();
      if (peek() == ']') {
        at++;
        return array;
      }
      expect(',');
    }
  }

  private String string() {
    at++;
    StringBuilder out = new StringBuilder();
    while (true) {
      char c = peek();
      at++;
      if (c == '"') {
        return out.toString();
      } else if (c == '\\') {
        out.append(escape());
      } else if (c < ' ') {
        throw error("control character in a string");
      } else {
        out.append(c);
      }
    }
  }

  private char escape() {
    char c = peek();
    at++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        return c;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        return unicode();
      default:
        throw error("unknown escape");
    }
  }

  private char unicode() {
    int code = 0;
    for (int i = 0; i < 4; i++) {
      int digit = Character.digit(peek(), 16);
      if (digit < 0 || peek() > 'f') {
        throw error("expected four hexadecimal digits");
      }
      code = code * 16 + digit;
      at++;
    }
    return (char) code;
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw error("unknown word");
    }
    at += word.length();
    return value;
  }

  private Object number() {
    int start = at;
    if (peek() == '-') {
      at++;
    }
    int integer = digits();
    boolean whole = true;
    if (integer > 1 && text.charAt(at - integer) == '0') {
      throw error("number with a leading zero");
    }
    if (at < text.length() && text.charAt(at) == '.') {
      whole = false;
      at++;
      digits();
    }
    if (at < text.length() && (text.charAt(at) == 'e' || text.charAt(at) == 'E')) {
      whole = false;
      at++;
      if (at < text.length() && (text.charAt(at) == '+' || text.charAt(at) == '-')) {
        at++;
      }
      digits();
    }
    String number = text.substring(start, at);
    if (whole) {
      try {
        return Long.parseLong(number);
      } catch (NumberFormatException e) {
        // Beyond a long: a double is the nearest that we have.
      }
    }
    double value = Double.parseDouble(number);
    if (Double.isInfinite(value)) {
      throw error("number out of range");
    }
    return value;
  }

  private int digits() {
    int start = at;
    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
      at++;
    }
    if (at == start) {
      throw error("expected a digit");
    }
    return at - start;
  }

  private void space() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() {
    if (at >= text.length()) {
      throw error("ends too early");
    }
    return text.charAt(at);
  }

  private void expect(char c) {
    if (peek() != c) {
      throw error("expected '" + c + "'");
    }
    at++;
  }

  private BadRecordException error(String message) {
    return new BadRecordException("", message + " at character " + at);
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map<?, ?> map) {
      String separator = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(separator);
        writeString((String) entry.getKey(), out);
        out.append(':');
        write(entry.getValue(), out);
        separator = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> items) {
      String separator = "";
      out.append('[');
      for (Object item : items) {
        out.append(separator);
        write(item, out);
        separator = ",";
      }
      out.append(']');
    } else if (value instanceof String string) {
      writeString(string, out);
    } else if (value == null || value instanceof Number || value instanceof Boolean) {
      out.append(value);
    } else {
      throw new IllegalArgumentException("no JSON form for " + value.getClass());
    }
  }

  private static void writeString(String string, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < string.length(); i++) {
      char c = string.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || Character.isSurrogate(c)) {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
