# SPDX-License-Identifier: MIT
# Reads a text as one string: its words, where they stand, by length.
split("\n")
| to_entries
| map(.key as $line | .value | [scan("[A-Za-z]+")]
	| map({word: ascii_downcase, line: $line}))
| add
| group_by(.word)
| map({
	word: .[0].word,
	times: length,
	lines: map(.line) | unique,
	letters: .[0].word | explode | group_by(.) | map([([.[0]] | implode),
		length])
  })
| group_by(.word | length)
| map({
	length: .[0].word | length,
	words: map({(.word): del(.word)}) | add
  })
| . as $all
| [range(6)] | map(. as $i | $all | map(.words |= with_entries(
	.key |= . + "-" + ($i | tostring) | .value.times += $i)))
| tojson | fromjson | flatten
| map(.words | length) | add
