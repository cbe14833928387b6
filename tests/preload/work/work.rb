# SPDX-License-Identifier: MIT
#
# Objects come and go, threads hold strings, and everything is written out and
# read again.

scale = ARGV[0].to_i
Item = Struct.new(:key, :name, :list)

items = {}
(1..40_000 * scale).each do |i|
  k = i * 7919 % 65_537
  list = (0..k % 9).map { |n| n.to_s * 30 }
  items[k] = Item.new(k, "name #{k} " * (k % 7 + 1), list)
  items.delete(i * 31 % 65_537) if i % 3 == 0
  GC.start if i % 20_000 == 0
end

threads = (1..4).map do
  Thread.new do
    held = []
    (1..3000 * scale).each do |i|
      held << "#{i}," * (i * 37 % 300)
      held.delete_at(i * 7 % held.size) if i % 2 == 0
    end
    held.sum(&:size)
  end
end
sums = threads.map(&:value)

exit 1 unless Marshal.load(Marshal.dump(items)) == items
text = items.values.sort_by { |item| [item.name, item.key] }
            .map(&:name).join("\n")
puts [items.size, sums, text.scan(/e (\d)\d*\1 /).size,
      text.tr("0-4", "5-9").sum(32), (3**20_000).to_s.sum].join(" ")
