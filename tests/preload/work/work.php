<?php
// SPDX-License-Identifier: MIT
//
// Rows come and go, are sorted, written as text and packed, and read again.

$scale = (int)$argv[1];
$rows = [];
for ($i = 0; $i < 60000 * $scale; $i++) {
	$k = $i * 7919 % 65537;
	$name = str_repeat("n$k", $k % 7 + 1);
	$rows[$k] = ["k" => $k, "name" => $name, "v" => range(0, $k % 5)];
	if ($i % 4 == 0)
		unset($rows[$i * 31 % 65537]);
}
usort($rows, fn($a, $b) =>
	[$a["name"], $a["k"]] <=> [$b["name"], $b["k"]]);

$json = json_encode($rows);
$packed = gzcompress(serialize($rows), 6);
if (json_decode($json, true) != $rows ||
	unserialize(gzuncompress($packed)) != $rows)
	exit(1);

function words($text) {
	foreach (explode(",", $text) as $word)
		yield trim($word, "[]{}\"");
}

$count = [];
foreach (words($json) as $word)
	$count[$word] = ($count[$word] ?? 0) + 1;
$found = preg_match_all('/n(\d)\d*\1"/', $json);
print(count($rows) . " $found " . strlen($packed) . " " . count($count) .
	" " . md5($json) . "\n");
