// SPDX-License-Identifier: Apache-2.0
// Go that calls C: the stack changes from a goroutine's to the thread's.
package main

/*
static unsigned leaf(unsigned x)
{
	for (unsigned i = 0; i < 20000; i++)
		x = (x * 31 + i) % 1000003;
	return x;
}
__attribute__((noinline)) unsigned in_c(unsigned x)
{
	return leaf(x) + 1;
}
*/
import "C"
import "fmt"

//go:noinline
func climb(n int, x uint32) uint32 {
	if n == 0 {
		return uint32(C.in_c(C.uint(x)))
	}
	return climb(n-1, x+1) + 1
}

func main() {
	fmt.Println("ready")
	for x := uint32(1); ; {
		x = climb(8, x)
	}
}
