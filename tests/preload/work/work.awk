# SPDX-License-Identifier: MIT
#
# Words are counted and their lines joined, and all lines rewritten and sorted.

{
	n[$1]++
	line[$1] = line[$1] "," $2
	gsub(/[13]/, "odd")
	all[NR] = $0
}

END {
	PROCINFO["sorted_in"] = "@ind_str_asc"
	for (w in n)
		if (n[w] % 3) {
			print w, n[w], length(line[w])
			delete line[w]
		}
	print asort(all), all[1], all[NR]
}
