package io.plimsoll.local;

/** Limits how many bytes a second are processed; a rate of 0 means no limit. Single-threaded but for setRate. */
final class TokenBucket {
  /** Shorter bursts would make the garbage collector's pauses look like missing capacity. */
  private static final double BURST_S = 0.5;

  private volatile double bytesPerS;
  private double tokens;
  private long filledNs = System.nanoTime();

  TokenBucket(double bytesPerS) {
    setRate(bytesPerS);
  }

  /** May be called from any thread; holds from the next record on. */
  void setRate(double bytesPerS) {
    this.bytesPerS = bytesPerS;
  }

  /** Blocks until {@code bytes} may be processed. The debt of one large record is paid by the next ones. */
  void take(int bytes) throws InterruptedException {
    double rate = bytesPerS;
    long now = System.nanoTime();
    double earned = rate * (now - filledNs) / 1e9;
    filledNs = now;
    if (rate == 0) {
      tokens = 0;
      return;
    }
    tokens = Math.min(tokens + earned, rate * BURST_S) - bytes;
    if (tokens < 0) {
      Thread.sleep((long) Math.ceil(-tokens / rate * 1e3));
    }
  }
}
