-- SPDX-License-Identifier: MIT
--
-- A table with holes, strings rewritten, and coroutines that each hold more and
-- more; then all of it is garbage.

local scale, t, words = tonumber(arg[1]), {}, {}

for i = 1, 60000 * scale do
	local k = i * 7919 % 65537
	t[k] = { k = k, s = ("%d,"):rep(k % 9 + 1):gsub("%%d", tostring(k)) }
	if i % 3 == 0 then t[i * 31 % 65537] = nil end
	words[#words + 1] = "w" .. k % 977
end

local keys, sum = {}, 0
for k, v in pairs(t) do
	keys[#keys + 1] = k
	sum = sum + #v.s
end
table.sort(keys)
local text = table.concat(words, " "):gsub("w(%d)(%d)", "%2w%1")

local threads = {}
for n = 1, 200 do
	threads[n] = coroutine.wrap(function()
		local held = {}
		while true do
			held[#held + 1] = text:sub(n, n + 500 + #held)
			coroutine.yield(#held)
		end
	end)
end
for _ = 1, 20 do
	for n = 1, 200 do sum = sum + threads[n]() end
end
threads = nil
collectgarbage()
print(#keys, keys[1], keys[#keys], sum, #text, text:sub(1000, 1100))
