#!/usr/bin/env python3
"""Samples answers under schemas and validates each with jsonschema (draft 2020-12).

Usage: check_samples.py PROGRAM MODEL SCHEMAS N [--temperature T] [--max-tokens M] [--jobs J]
       check_samples.py --read FILE SCHEMAS         validates samples that were written before

PROGRAM is sample_answers. Prints one line: how many were sampled, how many the grammar ended, how many
the limit of tokens cut, how many are invalid. Exit code 0 if every answer that was not cut is valid, 77
(skipped) without jsonschema or in a build without grammars.
"""
import argparse
import collections
import json
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)


def samples(options):
    if options.read:
        with open(options.read, encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)
        return
    # Into files and not through pipes: who waits for one program would stop the others.
    base, rest = divmod(options.n, options.jobs)
    programs, seed = [], 0
    for job in range(options.jobs):
        n = base + (job < rest)
        out = tempfile.TemporaryFile("w+", encoding="utf-8")
        programs.append((out, subprocess.Popen(
            [options.program, options.model, options.schemas, str(n), str(options.temperature),
             str(options.max_tokens), str(seed)], stdout=out)))
        seed += n
    codes = {program.wait() for _, program in programs}
    if 3 in codes:
        print("skipped: a build without grammars")
        sys.exit(77)
    if codes != {0}:
        sys.exit(f"{options.program} ended with {codes}")
    for out, _ in programs:
        out.seek(0)
        yield from (json.loads(line) for line in out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--read")
    parser.add_argument("--temperature", type=float, default=1.5)
    parser.add_argument("--max-tokens", type=int, default=1500)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", help="also write the samples to this file")
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    if options.read:
        options.schemas = options.words[0]
    else:
        options.program, options.model, options.schemas = options.words[:3]
        options.n = int(options.words[3])

    with open(options.schemas, encoding="utf-8") as lines:
        schemas = {line["id"]: line["schema"] for line in map(json.loads, lines)}
    # Formats are enforced, so they are checked too.
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    validators = {name: jsonschema.Draft202012Validator(schema, format_checker=checker)
                  for name, schema in schemas.items()}
    keep = open(options.keep, "w", encoding="utf-8") if options.keep else None
    count = collections.Counter()
    per_schema = collections.Counter()
    for sample in samples(options):
        if keep:
            keep.write(json.dumps(sample, ensure_ascii=False) + "\n")
        count["sampled"] += 1
        count["tokens"] += sample["tokens"]
        count["forced"] += sample["forced"]
        per_schema[sample["id"]] += 1
        if sample["finish"] != "stop":
            count["cut"] += 1
            continue
        try:
            error = next(validators[sample["id"]].iter_errors(json.loads(sample["text"])), None)
        except ValueError as broken:
            error = broken
        if error is not None:
            count["invalid"] += 1
            print(f"{sample['id']} seed {sample['seed']}: {sample['text']!r}: {str(error).splitlines()[0]}")
    if keep:
        keep.close()
    missing = [name for name in schemas if per_schema[name] == 0]
    print(f"{len(schemas)} schemas, {count['sampled']} samples: {count['sampled'] - count['cut']} ended by the "
          f"grammar, {count['cut']} cut at the limit, {count['invalid']} invalid; {count['tokens']} tokens, "
          f"{count['forced']} of them forced")
    if missing:
        print("no samples of", ", ".join(missing))
    return 1 if count["invalid"] or missing else 0


if __name__ == "__main__":
    sys.exit(main())
