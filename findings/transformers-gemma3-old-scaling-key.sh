#!/usr/bin/env bash
# transformers 5.24.0: a `rope_scaling` with the older key `type` scales the positions of Llama and Qwen 3, and not those
# of Gemma 3.
#
# Until version 4.43 the kind of scaling stood in `type`, since then in `rope_type`; version 5 takes both. In the
# configuration of Gemma 3 `rope_scaling` updates an object that says `"rope_type": "default"` already, so that the older
# key changes nothing: angles are not scaled, and a long text is computed with positions that the model never saw. What is
# said of it is one line of the log, about an unrecognized key `factor`.
#
# Seen: LlamaConfig and Qwen3Config "linear" by either key; Gemma3TextConfig "linear" by `rope_type`, "default" by `type`.
# Needs python3 with venv and pip, and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check transformers==5.24.0
cat >"$folder/show.py" <<'PYTHON'
from transformers import Gemma3TextConfig, LlamaConfig, Qwen3Config

seen = {}
for config in (LlamaConfig, Qwen3Config, Gemma3TextConfig):
    for key in ("rope_type", "type"):
        made = config(rope_scaling={key: "linear", "factor": 8.0}).rope_parameters
        made = made.get("full_attention", made)
        seen[config.__name__, key] = made["rope_type"]
        print(f"{config.__name__}, by {key!r}: rope_type {made['rope_type']!r}, factor {made.get('factor')}")
expected = {name: "linear" for name in seen} | {("Gemma3TextConfig", "type"): "default"}
raise SystemExit(0 if seen == expected else "changed")
PYTHON
TRANSFORMERS_VERBOSITY=error "$folder/venv/bin/python" "$folder/show.py"
