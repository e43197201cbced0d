// SPDX-License-Identifier: Apache-2.0
// Ordinary JavaScript: callbacks of built-in functions, classes, maps, strings, JSON.
const list = Array.from({length: 64}, (_, i) => i);
class Shape {
	constructor(n) { this.n = n; }
	area() { return this.n * 2; }
}
class Square extends Shape {
	area() { return this.n * this.n; }
}
function hot(x) {
	let a = x | 0;
	for (let i = 0; i < 300; i++)
		a = (a * 31 + i) % 1000003;
	return a;
}
function words(k) {
	let s = '';
	for (let i = 0; i < 200; i++)
		s += 'w' + ((i * k) % 97) + ' ';
	return s;
}
function count(text) {
	const m = new Map();
	for (const w of text.split(' '))
		m.set(w, (m.get(w) || 0) + 1);
	return [...m.entries()].sort((a, b) => b[1] - a[1])[0][1];
}
console.log('ready');
let sum = 0;
for (let k = 1; ; k++) {
	sum += list.map(x => hot(x) + 1).filter(x => hot(x) & 1).reduce((a, b) => a + hot(b), 0);
	list.sort((a, b) => hot(a) - hot(b));
	sum += list.map((x, i) => i % 2 ? new Square(x) : new Shape(x + k)).reduce((a, s) => a + s.area(), 0);
	sum += count(words(k)) + JSON.parse(JSON.stringify({k, d: new Array(20).fill(k)})).d.length;
}
