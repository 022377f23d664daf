# syntax=docker/dockerfile:1.7
# An ordinary consumer application that knows nothing of Plimsoll, with the plugin's jar beside it.
# Build from the top of the tree: docker build -f deploy/images/consumer.Dockerfile .
ARG JRE=eclipse-temurin:17.0.16_8-jre-jammy
ARG MAVEN=maven:3.9.9-eclipse-temurin-17

FROM ${MAVEN} AS build
WORKDIR /src
COPY deploy/local/maven/kafka kafka
RUN mvn -q -B -f kafka/pom.xml \
      org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
      -DoutputDirectory=/jars \
 && cd /jars && sha256sum --quiet --check /src/kafka/SHA256SUMS
COPY plugins/java plugins/java
COPY deploy/local/consumer consumer
RUN mvn -q -B -f plugins/java/pom.xml -DskipTests package \
 && mvn -q -B -f consumer/pom.xml -DskipTests package
# Of the broker's jars those that a client needs.
RUN mkdir /app && cd /jars && mv \
      kafka-clients-4.3.1.jar \
      lz4-java-1.10.2.jar \
      snappy-java-1.1.10.7.jar \
      zstd-jni-1.5.6-10.jar \
      slf4j-api-1.7.36.jar \
      log4j-slf4j-impl-2.25.4.jar \
      log4j-api-2.25.4.jar \
      log4j-core-2.25.4.jar \
      /src/plugins/java/assignor/target/plimsoll-assignor.jar \
      /src/consumer/target/plimsoll-local-consumer.jar \
      /app

FROM ${JRE}
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin consumer
COPY --from=build /app /app
COPY --chmod=755 deploy/images/consumer.sh /usr/local/bin/consumer
COPY deploy/images/consumer.log4j2.properties /etc/consumer/log4j2.properties
ENV CLASSPATH=/app/* LOG4J_CONFIGURATION_FILE=/etc/consumer/log4j2.properties
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["consumer"]
CMD ["/etc/consumer/consumer.properties"]
