# SPDX-License-Identifier: MIT
# Reads a text: frequencies, a concordance, and columns filled from it.
{
	line[NR] = $0
	for (i = 1; i <= NF; i++) {
		word = tolower($i)
		gsub(/[^a-z]/, "", word)
		if (word == "")
			continue
		count[word]++
		where[word] = where[word] " " NR
		pair[last, word]++
		last = word
	}
}
END {
	n = asorti(count, words)
	for (i = 1; i <= n; i++) {
		m = split(where[words[i]], at, " ")
		for (j = 1; j <= m && j <= 12; j++)
			quote[words[i], j] = substr(line[at[j]], 1, 40) "..."
		total += m
	}
	m = asort(quote)
	for (i = 1; i <= m; i++) {
		split(quote[i], part, " ")
		out = ""
		for (j in part)
			out = sprintf("%-12s|%s", part[j], out)
		text[i % 50] = text[i % 50] out "\n"
	}
	for (p in pair)
		if (split(p, part, SUBSEP) == 2 && pair[p] > 1)
			often[part[1]] = often[part[1]] "," part[2]
	for (i in text)
		sum += length(text[i])
	print n, total, m, sum, length(often)
}
