package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// compute prints a line after each fixed number of steps.
func compute() {
	const steps = 1 << 19
	x := uint32(1)
	for n := 1; ; n++ {
		for range steps {
			x = x*1664525 + 1013904223
		}
		fmt.Printf("GUEST work=%d of %08x\n", n, x)
	}
}

// sendHeartbeats writes a byte every five milliseconds while the guest runs.
func sendHeartbeats(log *slog.Logger) {
	port, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		log.Error("heartbeat", "error", err)
		return
	}
	defer port.Close()
	for range time.Tick(5 * time.Millisecond) {
		_, _ = port.WriteString(".")
	}
}

// useMemory occupies all memory but a reserve for the kernel, and never releases it.
func useMemory() {
	const reserve = 64 << 10
	kib, err := strconv.Atoi(strings.TrimSuffix(meminfo("MemAvailable:"), " kB"))
	if err != nil || kib <= reserve {
		return
	}
	used, err := unix.Mmap(
		-1, 0, (kib-reserve)<<10, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE,
	)
	if err == nil {
		err = pin(used)
	}
	fmt.Println("GUEST uses", len(used), "bytes more", err)
}

// pin puts one page of each MiB into a pipe, so that the kernel cannot move it. Otherwise the
// kernel would move pages while memory is free, and then run out of it.
func pin(memory []byte) error {
	const stride = 1 << 20
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_NONBLOCK); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		return err
	}
	for at := 0; at < len(memory); at += stride {
		page := unix.Iovec{Base: &memory[at]}
		page.SetLen(1)
		_, err := unix.Vmsplice(pipe[1], []unix.Iovec{page}, unix.SPLICE_F_NONBLOCK)
		if err != nil && err != unix.EAGAIN {
			return err
		}
	}
	return nil
}
