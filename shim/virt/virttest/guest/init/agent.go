package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runAgent implements the part of the QEMU guest agent's protocol that libvirt uses to count CPUs
// and to shut down.
func runAgent(log *slog.Logger) {
	port, err := openPort("org.qemu.guest_agent.0")
	if err != nil {
		log.Error("agent", "error", err)
		return
	}
	defer port.Close()
	serveAgent(port)
}

func openPort(name string) (*os.File, error) {
	ports, _ := filepath.Glob("/sys/class/virtio-ports/vport*")
	for _, port := range ports {
		if read(port+"/name") == name {
			return os.OpenFile("/dev/"+filepath.Base(port), os.O_RDWR|syscall.O_SYNC, 0)
		}
	}
	return nil, fmt.Errorf("no port %s", name)
}

type request struct {
	Execute   string
	Arguments struct {
		ID int64
	}
}

// serveAgent answers requests until the guest ends. A port without a host reads as EOF.
func serveAgent(port *os.File) {
	const hostAway = 100 * time.Millisecond
	buffered := bufio.NewReader(port)
	for {
		line, err := buffered.ReadBytes('\n')
		if err != nil {
			<-time.After(hostAway)
			continue
		}
		q, err := parseRequest(line)
		if err != nil {
			continue
		}
		answer, _ := json.Marshal(handleRequest(q))
		fmt.Fprintf(port, "%s\n", answer)
	}
}

// parseRequest skips the non-JSON byte with which libvirt begins each conversation.
func parseRequest(line []byte) (q request, err error) {
	err = json.Unmarshal(line[max(bytes.IndexByte(line, '{'), 0):], &q)
	return q, err
}

func handleRequest(q request) map[string]any {
	switch q.Execute {
	case "guest-sync":
		return map[string]any{"return": q.Arguments.ID}
	case "guest-get-vcpus":
		return map[string]any{"return": cpus()}
	case "guest-shutdown":
		powerOff()
	}
	return map[string]any{"error": map[string]string{"class": "CommandNotFound", "desc": q.Execute}}
}

type cpu struct {
	LogicalID  int  `json:"logical-id"`
	Online     bool `json:"online"`
	CanOffline bool `json:"can-offline"`
}

func cpus() []cpu {
	all := []cpu{}
	folders, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	for _, folder := range folders {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(folder), "cpu"))
		if err != nil {
			continue
		}
		state := read(folder + "/online")
		all = append(all, cpu{LogicalID: id, Online: state != "0", CanOffline: state != ""})
	}
	return all
}
