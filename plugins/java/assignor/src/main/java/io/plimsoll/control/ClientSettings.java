package io.plimsoll.control;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.CommonClientConfigs;

/** What our own clients take from the configuration of the application's client. */
public final class ClientSettings {
  private ClientSettings() {}

  /** A new map with these servers and the application's way to reach and to trust them. */
  public static Map<String, Object> inherit(Object bootstrapServers, Map<String, ?> clientConfig) {
    Map<String, Object> config = new HashMap<>();
    clientConfig.forEach(
        (name, value) -> {
          if (name.startsWith("security.")
              || name.startsWith("sasl.")
              || name.startsWith("ssl.")
              || name.equals(CommonClientConfigs.CLIENT_DNS_LOOKUP_CONFIG)) {
            config.put(name, value);
          }
        });
    config.put(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers);
    return config;
  }
}
