"""What is read of gRPC's messages is what is written down beside it."""

import subprocess
import sys
from pathlib import Path

from tests.servers.process import ROOT

STUBS = Path("gateway/planes/stubs")


def test_the_messages_are_made_of_what_is_written_down(tmp_path: Path) -> None:
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / STUBS).glob("*.proto"))
    words = [
        "-m",
        "grpc_tools.protoc",
        f"-I{ROOT}",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
    ]
    subprocess.run([sys.executable, *words, *files], cwd=ROOT, check=True, timeout=120)
    made = {path.name: path.read_text() for path in (tmp_path / STUBS).iterdir()}
    assert made == {name: (ROOT / STUBS / name).read_text() for name in made}
    assert len(made) == 2 * len(files)
