"""Checksums of jars and digests of sources."""

import hashlib
from pathlib import Path

from deploy.local import artifacts


def test_every_difference_is_named(tmp_path: Path) -> None:
    """A missing, a foreign and an altered jar are each reported by name; equal ones are not."""
    for name in ("good.jar", "altered.jar", "foreign.jar"):
        (tmp_path / name).write_bytes(name.encode())
    sums = {
        "good.jar": hashlib.sha256(b"good.jar").hexdigest(),
        "altered.jar": hashlib.sha256(b"as published").hexdigest(),
        "missing.jar": hashlib.sha256(b"").hexdigest(),
    }
    assert artifacts._differences(tmp_path, sums) == [
        "missing.jar is missing",
        "foreign.jar is not expected",
        "altered.jar has another SHA-256 than the committed one",
    ]


def test_committed_sums_name_the_pinned_versions() -> None:
    """The jars that the poms pin by version are in the checksum lists."""
    folder = Path(artifacts.__file__).parent / "maven"
    kafka = artifacts._read_sums(folder / "kafka" / "SHA256SUMS")
    spark = artifacts._read_sums(folder / "spark" / "SHA256SUMS")
    assert {"kafka_2.13-4.3.1.jar", "kafka-tools-4.3.1.jar"} <= kafka.keys()
    assert len(spark) == 4


def test_a_changed_source_changes_the_digest(tmp_path: Path) -> None:
    """Sources and poms count, built files do not."""
    source = tmp_path / "src" / "main" / "java" / "A.java"
    source.parent.mkdir(parents=True)
    source.write_text("class A {}")
    (tmp_path / "pom.xml").write_text("<project/>")
    before = artifacts._source_digest(tmp_path)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "pom.xml").write_text("built")
    assert artifacts._source_digest(tmp_path) == before
    source.write_text("class A { int b; }")
    assert artifacts._source_digest(tmp_path) != before
