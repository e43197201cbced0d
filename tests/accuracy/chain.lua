-- SPDX-License-Identifier: Apache-2.0
-- LuaJIT: a loop that is compiled, and one of calls from a sort.
local function work(x)
	for i = 1, 500 do x = (x * 31 + i) % 1000003 end
	return x
end
local function climb(n, x)
	if n == 0 then return work(x) end
	return climb(n - 1, x + 1) + 1
end
print("ready")
io.flush()
while true do
	local list = {}
	for i = 1, 50 do list[i] = i * 7919 % 50 end
	table.sort(list, function(a, b) return climb(8, a) < climb(8, b) end)
end
