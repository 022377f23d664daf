package io.plimsoll.control;

/** Foreign bytes that do not say what they should: the record is ignored and counted. */
public final class BadRecordException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The field at fault, such as {@code assignment.c1.orders[3]}; empty for the whole record. */
  private final String path;

  public BadRecordException(String path, String message) {
    super(path.isEmpty() ? message : path + ": " + message, null, false, false);
    this.path = path;
  }

  public String path() {
    return path;
  }
}
