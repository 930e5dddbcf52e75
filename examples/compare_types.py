#!/usr/bin/env python3
"""What quantizing costs: makes a model smaller in several ways and prints a table of sizes, of how
well each predicts a text, and of how often it says what the original does.

    python3 examples/compare_types.py [MODEL.gguf]

Calls the command smidgen and reads its JSON. SMIDGEN names the command if it is not on the PATH.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TYPES = ["Q8_0", "Q5_0", "Q4_0"]
MODELS = Path(__file__).parent / "models"
TEXT = MODELS / "stories.txt"


def smidgen(*args):
    """Runs a command and gives what it says; what it does not like ends this program as well."""
    command = [os.environ.get("SMIDGEN", "smidgen"), *map(str, args)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        sys.exit(f"compare_types.py: no command {command[0]}: set SMIDGEN to its path")
    except subprocess.CalledProcessError as error:
        # It has said why on standard error.
        sys.exit(error.returncode)
    return json.loads(done.stdout)


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if len(sys.argv) == 2:
            original = Path(sys.argv[1])
        else:
            original = folder / "original.gguf"
            checkpoint = MODELS / "smidgen-260k.bin"
            tokenizer = MODELS / "smidgen-260k-tokenizer.bin"
            smidgen("convert", "--json", checkpoint, "--vocab", tokenizer, "-o", original)

        for number, ty in enumerate(TYPES):
            smaller = folder / f"{ty}.gguf"
            smidgen("quantize", "--json", original, smaller, ty)
            found = smidgen("compare", "--json", "-f", TEXT, original, smaller)
            if number == 0:
                print(f"{'type':<8} {'bytes':>9} {'perplexity':>11} {'agreement':>10}")
                a = found["a"]
                print(f"{'original':<8} {a['bytes']:>9} {a['perplexity']:>11.4f} {1:>10.2%}")
            b = found["b"]
            print(f"{ty:<8} {b['bytes']:>9} {b['perplexity']:>11.4f} {found['agreement']:>10.2%}")


if __name__ == "__main__":
    main()
