"""What real releases of public servers show; see SOURCES.toml."""

from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "SOURCES.toml"
