"""What masks let through satisfies the schema: random walks, checked by the Python package jsonschema.

Usage: schema_samples_test.py PROGRAM TOKENIZER SCHEMAS N. Exit code 77: cannot be run here, and why.
"""

import collections
import json
import subprocess
import sys


def main():
    program, tokenizer, schemas, n = sys.argv[1:]
    try:
        import jsonschema
    except ImportError:
        print("skipped: no Python package jsonschema (Debian: python3-jsonschema)")
        return 77
    done = subprocess.run([program, tokenizer, schemas, n], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        print("skipped: structured output is not part of this build (no xgrammar)")
        return 77
    if done.returncode != 0:
        print(f"{program} ended with {done.returncode}: {done.stderr}")
        return 1
    with open(schemas, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    validators = {row["id"]: jsonschema.Draft202012Validator(row["schema"]) for row in rows}
    seen, bad = collections.Counter(), 0
    for line in done.stdout.splitlines():
        sample = json.loads(line)
        if not sample["text"]:
            continue
        try:
            value = json.loads(sample["text"])
            errors = [error.message for error in validators[sample["id"]].iter_errors(value)]
        except ValueError as error:
            errors = [str(error)]
        seen[sample["id"]] += 1
        if errors:
            bad += 1
            print(f"{sample['id']}: {sample['text']!r}: {errors[0]}")
    # A walk may wander off; a schema of which hardly any text was seen is not tested.
    missing = [name for name in validators if seen[name] < int(n) / 2]
    print(f"{sum(seen.values())} texts of {len(rows)} schemas, {bad} wrong; too few texts of {missing}")
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main())
