# SPDX-License-Identifier: MIT
"""Reads a text, counts, indexes, and goes through JSON and back."""
import collections
import json
import re
import string
import sys
import textwrap

text = open(sys.argv[1], encoding="ascii").read()

# Where each word stands, and which words follow it.
places = collections.defaultdict(list)
follows = collections.defaultdict(collections.Counter)
before = ""
for number, line in enumerate(text.splitlines()):
    for match in re.finditer(r"[A-Za-z]+(?:-[a-z]+)?", line):
        word = match.group().lower()
        places[word].append((number, match.start()))
        follows[before][word] += 1
        before = word

record = {
    word: {
        "places": [list(place) for place in places[word]],
        "next": follows[word].most_common(8),
        "crossed": "".join(reversed(word)).translate(
            str.maketrans(string.ascii_lowercase, string.printable[10:36])),
    } for word in sorted(places)
}
for indent in (None, 1):
    record = json.loads(json.dumps(record, indent=indent, sort_keys=True))

# A little page for each letter, then all of it in one.
pages = []
for letter in string.ascii_lowercase:
    words = [w for w in record if w.startswith(letter)]
    lines = textwrap.wrap(" ".join(
        "%s(%d)" % (w, len(record[w]["places"])) for w in words), 60)
    pages.append("== %s ==\n%s\n" % (letter.upper(), "\n".join(lines)))
page = "\n".join(pages)
page = re.sub(r"\((\d+)\)", lambda m: "[" + hex(int(m.group(1))) + "]", page)


class Node:
    """A tree of words, by their letters."""

    def __init__(self):
        self.below = {}
        self.ends = 0

    def add(self, word):
        node = self
        for letter in word:
            node = node.below.setdefault(letter, Node())
        node.ends += 1

    def size(self):
        return 1 + sum(n.size() for n in self.below.values())


tree = Node()
for word in record:
    tree.add(word)
print(len(record), len(page), tree.size(), sum(
    len(v["places"]) for v in record.values()))
