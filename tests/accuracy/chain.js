// SPDX-License-Identifier: Apache-2.0
// JIT code: a recursive function that the engine compiles, called from a sort.
function work(x) {
	for (let i = 0; i < 500; i++)
		x = (x * 31 + i) % 1000003;
	return x;
}
function climb(n, x) {
	return n ? climb(n - 1, x + 1) + 1 : work(x);
}
console.log('ready');
for (let k = 0; ; k++)
	Array.from({length: 50}, (_, i) => i * 7919 % 50).sort((a, b) => climb(8, a) - climb(8, b) + a - b);
