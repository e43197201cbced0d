// SPDX-License-Identifier: Apache-2.0
// A known chain in Go: main.main -> main.climb x 12 -> sort.Slice -> less -> main.work, on goroutines.
package main

import (
	"fmt"
	"sort"
)

//go:noinline
func work(x uint64) uint64 {
	for i := uint64(0); i < 300; i++ {
		x = x*6364136223846793005 + i
		x ^= x >> 13
	}
	return x
}

//go:noinline
func climb(n int, x uint64) uint64 {
	var keep [5]uint64
	keep[n%5] = x
	if n > 0 {
		return climb(n-1, x+1) + keep[n%5]
	}
	v := make([]uint64, 24)
	for i := range v {
		v[i] = work(x + uint64(i))
	}
	sort.Slice(v, func(i, j int) bool { return work(v[i]) < work(v[j]) })
	return v[0]
}

func main() {
	fmt.Println("ready")
	var sum uint64
	for i := uint64(0); ; i++ {
		done := make(chan uint64)
		go func() { done <- climb(11, i) }()
		sum += <-done + climb(11, i)
	}
}
