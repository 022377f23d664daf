#!/bin/sh
# Runs one member of the group: consumer SETTINGS. Its client id, which is also the stable id by
# which targets name it, is the name of its container, so that the service can be scaled.
set -eu
settings=$(mktemp)
cat "$1" > "$settings"
printf '\nclient.id=%s\n' "${CLIENT_ID:-$(hostname)}" >> "$settings"
exec java -Xms24m -Xmx64m -XX:+UseSerialGC io.plimsoll.local.OrdinaryConsumer "$settings"
