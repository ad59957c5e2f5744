// Command init is the only program of the guest that the tests run: it brings
// online what is plugged, answers the power button and the guest agent's questions,
// and tells its size on the console.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// options are the words "guest.NAME" on the kernel's command line.
type options map[string]bool

func main() {
	if err := mounts(); err != nil {
		fmt.Println("GUEST mount:", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	o := parse(read("/proc/cmdline"))
	loadModules(log)
	news := make(chan string)
	go buttons(news)
	go agent(log)
	go uevents(log, news)
	if o["keep-dimms"] {
		keepDIMMs(log)
	}
	if o["busy"] {
		go work()
	}
	if o["heartbeat"] {
		go beat(log)
	}
	serve(o, news)
}

func mounts() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("%s: %w", m[1], err)
		}
	}
	return nil
}

func parse(cmdline string) options {
	o := options{}
	for _, word := range strings.Fields(cmdline) {
		if name, ok := strings.CutPrefix(word, "guest."); ok {
			o[name] = true
		}
	}
	return o
}

// loadModules loads what /modules lists, in its order.
func loadModules(log *slog.Logger) {
	for _, path := range strings.Fields(read("/modules/list")) {
		if err := loadModule(path); err != nil {
			log.Error("module", "path", path, "error", err)
		}
	}
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(path) != ".ko" {
		flags = 4 // MODULE_INIT_COMPRESSED_FILE
	}
	return unix.FinitModule(int(f.Fd()), "", flags)
}

// keepDIMMs has the kernel refuse at once.
func keepDIMMs(log *slog.Logger) {
	if err := os.WriteFile("/sys/firmware/acpi/hotplug/memory/enabled", []byte("0"), 0o644); err != nil {
		log.Error("keep DIMMs", "error", err)
	}
}

// serve brings online what is plugged, and tells the guest's size when it changes.
func serve(o options, news <-chan string) {
	told := ""
	for {
		left := bringOnline(o)
		if now := size(); now != told {
			fmt.Println("GUEST", now)
			told = now
		}
		if o["use-memory"] {
			useMemory()
		}
		if next(news, left) == powerButton {
			press(o)
		}
	}
}

// bringOnline says whether something would not be brought online.
func bringOnline(o options) (left bool) {
	if !o["keep-cpus-offline"] {
		left = online("/sys/devices/system/cpu/cpu[0-9]*/online", "0", "1")
	}
	if !o["keep-memory-offline"] {
		left = online("/sys/devices/system/memory/memory*/state", "offline", "online_movable") || left
	}
	return left
}

// next waits for news, or only for a while: a CPU of an emulated machine that does not come
// up in the time that the kernel gives it may do so later.
func next(news <-chan string, left bool) string {
	var again <-chan time.Time
	if left {
		again = time.After(5 * time.Second)
	}
	select {
	case what := <-news:
		return what
	case <-again:
		return ""
	}
}

func press(o options) {
	if o["ignore-power-button"] {
		fmt.Println("GUEST power button ignored")
		return
	}
	powerOff()
}

func powerOff() {
	fmt.Println("GUEST power off")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func online(pattern, from, to string) (left bool) {
	all, _ := filepath.Glob(pattern)
	for _, path := range all {
		if read(path) == from {
			left = os.WriteFile(path, []byte(to), 0o644) != nil || left
		}
	}
	return left
}

func size() string {
	return "cpus=" + onlineCPUs() + " memory=" + strings.ReplaceAll(meminfo("MemTotal:"), " ", "")
}

// meminfo is a line of proc_meminfo(5), such as "262144 kB".
func meminfo(name string) string {
	for line := range strings.Lines(read("/proc/meminfo")) {
		if figure, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(figure)
		}
	}
	return ""
}

func onlineCPUs() string { return read("/sys/devices/system/cpu/online") }

func read(path string) string {
	data, _ := os.ReadFile(path)
	return strings.TrimSpace(string(data))
}
