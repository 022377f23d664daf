# syntax=docker/dockerfile:1.7
# Plimsoll's own processes. Build from the top of the tree:
#
#     docker build -f deploy/images/plimsoll.Dockerfile --build-arg EXTRAS=agent --target service .
#
# EXTRAS are those of pyproject.toml that the image is for; every package comes from
# requirements.lock, checked by its hashes. Target `pipeline` adds Java and Spark's Kafka connector.
ARG PYTHON=python:3.11.14-slim-bookworm
ARG JRE=eclipse-temurin:17.0.16_8-jre-jammy
ARG MAVEN=maven:3.9.9-eclipse-temurin-17

FROM ${PYTHON} AS build
ARG EXTRAS=agent
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml requirements.lock ./
COPY deploy/images/requirements.py deploy/images/
RUN python deploy/images/requirements.py build > /tmp/build.txt \
 && python deploy/images/requirements.py ${EXTRAS} > /tmp/run.txt \
 && python -m venv /tmp/builder \
 && /tmp/builder/bin/pip install --require-hashes --no-deps -r /tmp/build.txt \
 && python -m venv /opt/plimsoll \
 && /opt/plimsoll/bin/pip install --require-hashes --no-deps -r /tmp/run.txt
COPY LICENSE README.md ./
COPY agent agent
COPY cost cost
COPY pipeline pipeline
COPY deploy deploy
RUN /tmp/builder/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels . \
 && /opt/plimsoll/bin/pip install --no-deps /tmp/wheels/*.whl \
 && /opt/plimsoll/bin/pip check \
 && /opt/plimsoll/bin/pip uninstall --yes pip

FROM ${PYTHON} AS service
RUN useradd --uid 10001 --create-home --home-dir /var/lib/plimsoll --shell /usr/sbin/nologin plimsoll
COPY --from=build /opt/plimsoll /opt/plimsoll
ENV PATH=/opt/plimsoll/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/plimsoll
ENTRYPOINT ["plimsoll"]
CMD ["--help"]

FROM ${MAVEN} AS connector
WORKDIR /src
COPY deploy/local/maven/spark ./
RUN mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
      -DoutputDirectory=/connector \
 && cd /connector && sha256sum --quiet --check /src/SHA256SUMS

FROM ${JRE} AS jre

FROM service AS pipeline
COPY --from=jre /opt/java/openjdk /opt/java/openjdk
COPY --from=connector /connector /opt/connector
ENV JAVA_HOME=/opt/java/openjdk PATH=/opt/java/openjdk/bin:$PATH
CMD ["pipeline", "run", "--help"]
