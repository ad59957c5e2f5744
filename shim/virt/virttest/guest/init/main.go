// Command init is the only program of the test guest. It brings plugged CPUs and memory online,
// answers the power button and the guest agent's requests, and prints its size on the console.
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
	events := make(chan string)
	go watchButtons(events)
	go runAgent(log)
	go watchUevents(log, events)
	if o["keep-dimms"] {
		keepDIMMs(log)
	}
	if o["busy"] {
		go compute()
	}
	if o["heartbeat"] {
		go sendHeartbeats(log)
	}
	serve(o, events)
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

// loadModules loads the modules in /modules/list.
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

// keepDIMMs makes the kernel refuse memory unplug at once.
func keepDIMMs(log *slog.Logger) {
	err := os.WriteFile("/sys/firmware/acpi/hotplug/memory/enabled", []byte("0"), 0o644)
	if err != nil {
		log.Error("keep DIMMs", "error", err)
	}
}

// serve brings plugged resources online, and prints the guest's size when it changes.
func serve(o options, events <-chan string) {
	reported := ""
	for {
		incomplete := bringOnline(o)
		if current := size(); current != reported {
			fmt.Println("GUEST", current)
			reported = current
		}
		if o["use-memory"] {
			useMemory()
		}
		if nextEvent(events, incomplete) == powerButton {
			pressPowerButton(o)
		}
	}
}

// bringOnline reports whether a resource is still offline.
func bringOnline(o options) (incomplete bool) {
	if !o["keep-cpus-offline"] {
		incomplete = setOnline("/sys/devices/system/cpu/cpu[0-9]*/online", "0", "1")
	}
	if !o["keep-memory-offline"] {
		const pattern = "/sys/devices/system/memory/memory*/state"
		incomplete = setOnline(pattern, "offline", "online_movable") || incomplete
	}
	return incomplete
}

// nextEvent waits for an event. If a resource is still offline it waits five seconds at most: a CPU
// of an emulated machine may miss the kernel's time limit and come online later.
func nextEvent(events <-chan string, incomplete bool) string {
	var retry <-chan time.Time
	if incomplete {
		retry = time.After(5 * time.Second)
	}
	select {
	case event := <-events:
		return event
	case <-retry:
		return ""
	}
}

func pressPowerButton(o options) {
	if o["ignore-power-button"] {
		fmt.Println("GUEST power button ignored")
		return
	}
	if o["slow-shutdown"] {
		fmt.Println("GUEST shutting down")
		<-time.After(time.Minute)
	}
	powerOff()
}

func powerOff() {
	fmt.Println("GUEST power off")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func setOnline(pattern, from, to string) (incomplete bool) {
	all, _ := filepath.Glob(pattern)
	for _, path := range all {
		if read(path) == from {
			incomplete = os.WriteFile(path, []byte(to), 0o644) != nil || incomplete
		}
	}
	return incomplete
}

func size() string {
	return "cpus=" + onlineCPUs() + " memory=" + strings.ReplaceAll(meminfo("MemTotal:"), " ", "")
}

// meminfo returns a value of proc_meminfo(5), such as "262144 kB".
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
