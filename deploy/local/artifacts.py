"""Java artifacts of the local parts: third-party jars by checksum, our own modules by content.

`fetch("kafka")` leaves exactly the jars of `maven/kafka/SHA256SUMS` in `build/jars/kafka`; when
they are there already Maven is not called. `package(MODULE)` builds one of our Maven modules and
does nothing while its sources are unchanged. Both may be called by several processes at once.
"""

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agent.errors import TheirFault
from deploy.local.paths import BUILD, HERE, ROOT

SETS: Final = ("kafka", "spark", "jmx", "streams")
COPY_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fetch(name: str) -> Path:
    """Return the folder that holds the checked jars of one set, fetching them when needed."""
    sums = _read_sums(HERE / "maven" / name / "SHA256SUMS")
    target = BUILD / "jars" / name
    with _locked(f"jars-{name}"):
        if not _differences(target, sums):
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as fresh_name:
            fresh = Path(fresh_name)
            pom = HERE / "maven" / name / "pom.xml"
            _maven("-f", str(pom), COPY_GOAL, f"-DoutputDirectory={fresh}")
            wrong = _differences(fresh, sums)
            if wrong:
                raise TheirFault(f"{name} jars", "; ".join(wrong))
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            for jar in fresh.iterdir():
                jar.rename(target / jar.name)
    return target


def package(module: Path, jar: Path) -> Path:
    """Build the Maven module in folder `module` when its sources changed; return its `jar`."""
    stamp = BUILD / "jars" / f"{module.relative_to(ROOT).as_posix().replace('/', '-')}.sources"
    digest = _source_digest(module)
    with _locked(stamp.stem):
        if not (jar.exists() and stamp.exists() and stamp.read_text() == digest):
            _maven("-f", str(module / "pom.xml"), "-DskipTests", "package")
            stamp.write_text(digest)
    return jar


def plugin_jar() -> Path:
    """Return the Java plugin's jar, built when its sources changed."""
    module = ROOT / "plugins" / "java"
    return package(module, module / "assignor" / "target" / "plimsoll-assignor.jar")


def streams_jars() -> tuple[Path, Path, Path]:
    """Return plugin, Streams plugin and its test application, built when their sources changed."""
    module = ROOT / "plugins" / "java"
    target = module / "streams" / "target"
    application = package(module, target / "plimsoll-streams-tests.jar")
    return plugin_jar(), target / "plimsoll-streams.jar", application


def consumer_jar() -> Path:
    """Return the jar of the ordinary consumer application, built when its sources changed."""
    module = HERE / "consumer"
    return package(module, module / "target" / "plimsoll-local-consumer.jar")


def _maven(*arguments: str) -> None:
    """Run Maven quietly; its output is shown only when it fails."""
    done = subprocess.run(
        ["mvn", "-q", "-B", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TheirFault("mvn " + " ".join(arguments), (done.stdout + done.stderr)[-4000:])


def _read_sums(path: Path) -> dict[str, str]:
    """Read a file in the format of sha256sum(1) as jar name to digest."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: digest for digest, name in pairs}


def _differences(folder: Path, sums: dict[str, str]) -> list[str]:
    """Say how the jars of `folder` differ from `sums`; empty means that they are the same."""
    present = {path.name: path for path in folder.glob("*.jar")}
    wrong = [f"{name} is missing" for name in sorted(sums.keys() - present.keys())]
    wrong += [f"{name} is not expected" for name in sorted(present.keys() - sums.keys())]
    for name in sorted(sums.keys() & present.keys()):
        with present[name].open("rb") as jar:
            if hashlib.file_digest(jar, "sha256").hexdigest() != sums[name]:
                wrong.append(f"{name} has another SHA-256 than the committed one")
    return wrong


def _source_digest(module: Path) -> str:
    """Digest names and contents of a module's poms and sources."""
    files = [*module.rglob("pom.xml"), *module.rglob("src/**/*")]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.is_file() and "target" not in path.parts):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(module)} {content}\n".encode())
    return digest.hexdigest()


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold a file lock, so that test processes started together fetch or build once."""
    folder = BUILD / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Fetch the named sets of jars (all when none is named) and print their folders."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.artifacts", description=__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    names = parser.parse_args().sets or list(SETS)
    unknown = sorted(set(names) - set(SETS))
    if unknown:
        parser.error(f"unknown sets: {', '.join(unknown)}")
    for name in names:
        try:
            print(fetch(name))
        except TheirFault as fault:
            sys.exit(f"{fault.path}: {fault.message}")


if __name__ == "__main__":
    main()
