// Count loads a program that counts packets, and says how its map looks.
package main

import "fmt"

// The folder is where Debian keeps the headers of the architecture.
//go:generate go tool bpf2go -cc clang-19 -cflags "-O2 -g -I/usr/include/x86_64-linux-gnu" -tags linux count count.bpf.c
// The objects of both byte orders are there now; the big-endian one is left out, and counted.
//go:generate kiln check -q .

func main() {
	spec, err := loadCount()
	if err != nil {
		panic(err)
	}
	fmt.Println(spec.Programs["count"].Type, spec.Maps["packets"].MaxEntries)
}
