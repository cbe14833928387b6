# SPDX-License-Identifier: MIT
# Reads a text: counts words, builds an index, sorts and folds it.
use strict;
use warnings;

my (%count, %lines, %pairs);
my $before = '';
my $n = 0;
while (my $line = <>) {
	$n++;
	chomp $line;
	for my $word (map { lc } $line =~ /([A-Za-z][A-Za-z'-]*)/g) {
		$count{$word}++;
		push @{ $lines{$word} }, { line => $n, text => $line };
		$pairs{"$before $word"}{$n} = 1;
		$before = $word;
	}
}

my @words = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $index = '';
for my $word (@words) {
	my $row = sprintf "%-20s %5d ", $word, $count{$word};
	$row .= join ',', map { $_->{line} } @{ $lines{$word} };
	$row =~ s/(\d+),\1\b/$1/g;
	$index .= "$row\n";
}
for my $pair (grep { keys %{ $pairs{$_} } > 2 } sort keys %pairs) {
	my @parts = split / /, $pair;
	$index .= join('-', map { ucfirst } reverse @parts) . "\n";
}
for my $word (@words) {
	next if $word =~ /^[aeiou]/;
	delete $lines{$word};
}
my %folded;
$folded{ join '', sort split //, $_ } .= "$_ " for @words;
my @same = grep { tr/ // > 1 } values %folded;
printf "%d words, %d bytes, %d pairs, %d same letters\n", scalar @words,
	length $index, scalar keys %pairs, scalar @same;
