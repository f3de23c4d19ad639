#!/usr/bin/env python3
"""Writes src/text/python_chars_data.inc: character classes and case mappings exactly as this Python's str methods
have them (made with Python 3.11, Unicode 14).

Classes are lists of half-open ranges [begin, end). Case mappings are runs {first, last, stride, delta}; what does not
map to a single character is listed as {code point, UTF-8 text}.

Usage: python3 scripts/make_python_chars.py > src/text/python_chars_data.inc
"""
import sys
import unicodedata

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out = []
    for c in ALL:
        if test(chr(c)):
            if out and out[-1][1] == c:
                out[-1][1] = c + 1
            else:
                out.append([c, c + 1])
    return out


def emit_class(name, test):
    print(f"constexpr Range {name}[] = {{")
    line = "   "
    for a, b in ranges(test):
        item = f" {{0x{a:X},0x{b:X}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};\n")


def emit_case(name, fold):
    single, multi = [], []
    for c in ALL:
        m = fold(chr(c))
        if m == chr(c):
            continue
        if len(m) == 1:
            single.append((c, ord(m) - c))
        else:
            multi.append((c, m))
    runs = []
    for c, d in single:
        if runs:
            r = runs[-1]
            gap = c - r[1]
            if r[3] == d and gap in (1, 2) and (r[2] == 0 or r[2] == gap):
                r[1], r[2] = c, gap
                continue
        runs.append([c, c, 0, d])
    print(f"constexpr CaseRun {name}Runs[] = {{")
    line = "   "
    for a, b, s, d in runs:
        item = f" {{0x{a:X},0x{b:X},{s or 1},{d}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};\n")
    print(f"constexpr CaseText {name}Texts[] = {{")
    for c, m in multi:
        text = "".join(f"\\{b:03o}" for b in m.encode())
        print(f'    {{0x{c:X}, "{text}"}},')
    print("};\n")


def ignorable(ch):
    # Case_Ignorable cannot be asked directly; lower() of a final sigma depends on it.
    # "A" + ch + sigma: with ch ignorable the sigma is final; "A" + ch cased would also make it final.
    return ("A" + ch + "\u03a3").lower()[-1] == "\u03c2" and (ch + "\u03a3").lower()[-1] != "\u03c2"


def cased(ch):
    return (ch + "\u03a3").lower()[-1] == "\u03c2"


print(f"// Made by scripts/make_python_chars.py with Unicode {unicodedata.unidata_version}; do not edit.")
emit_class("kSpace", str.isspace)
emit_class("kNotPrintable", lambda ch: not ch.isprintable())
emit_class("kAlpha", str.isalpha)
emit_class("kDecimal", str.isdecimal)
emit_class("kDigit", str.isdigit)
emit_class("kNumeric", str.isnumeric)
emit_class("kUpper", str.isupper)
emit_class("kLower", str.islower)
emit_class("kTitle", lambda ch: unicodedata.category(ch) == "Lt")
emit_class("kCased", cased)
emit_class("kCaseIgnorable", ignorable)
emit_case("kUpper", str.upper)
emit_case("kLower", str.lower)
emit_case("kTitle", str.title)
sys.stdout.flush()
