"""Makes one C++ file of the ```cpp blocks of a page: includes on top, then each block as a part of one function, in order.

    extract_snippets.py PAGE OUT
"""
import pathlib
import re
import sys


def main():
    page, out = map(pathlib.Path, sys.argv[1:])
    blocks = [(match.start(), match[1]) for match in re.finditer(r"^```cpp\n(.*?)^```$", page.read_text(), re.M | re.S)]
    if not blocks:
        sys.exit(f"{page}: no C++ block")
    includes, body = [], []
    for start, block in blocks:
        line = page.read_text()[:start].count("\n") + 2
        lines = block.splitlines()
        includes += [text for text in lines if text.startswith("#include")]
        code = [text if not text.startswith("#include") else "" for text in lines]
        body += [f'#line {line} "{page}"', *code]
    text = "\n".join([*includes, "", "inline void run_snippets() {", *body, "}", ""])
    out.write_text(text)


if __name__ == "__main__":
    main()
