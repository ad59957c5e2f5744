package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// touch writes to each page of most of the memory that is free, and gives it back: from
// then on the host's memory is really taken.
func touch() {
	size := available() * 3 / 4 / os.Getpagesize() * os.Getpagesize()
	if size <= 0 {
		return
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		fmt.Println("GUEST touch:", err)
		return
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a fault for each page takes minutes where all is emulated
	for at := 0; at < size; at += os.Getpagesize() {
		mem[at] = 1
	}
	_ = unix.Munmap(mem)
	fmt.Printf("GUEST touched %dMiB\n", size>>20)
}

// available is the memory in bytes that the kernel could give to a program.
func available() int {
	for line := range strings.Lines(read("/proc/meminfo")) {
		if text, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			return kib << 10
		}
	}
	return 0
}
