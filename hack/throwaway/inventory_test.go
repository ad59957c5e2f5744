package throwaway_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func TestNodeInventory(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a node")
	}
	n := attachOrStart(t)
	for name, c := range map[string]check{
		"cgroup v2": {"stat -fc %T /sys/fs/cgroup", "cgroup2fs"},
		"BTF":       {"head -c 2 /sys/kernel/btf/vmlinux | od -An -tx1", "9f eb"},
		"every capability": {`last=$(cat /proc/sys/kernel/cap_last_cap)
			[ "$(grep CapEff /proc/self/status | cut -f2)" = "$(printf %016x $(((2 << last) - 1)))" ] &&
			echo all`, "all"},
		"systemd": {"cat /proc/1/comm", "systemd"},
		"runc, seccomp": {
			`runc features | tr -d " \n" | grep -o '"seccomp":{"enabled":true' `,
			`"seccomp":{"enabled":true`,
		},
		"CNI bridge": {"test -x /usr/lib/cni/bridge && echo there", "there"},
		"NRI":        {"test -S /var/run/nri/nri.sock && echo there", "there"},
		"libvirt":    {"virsh -c qemu:///system uri", "qemu:///system"},
		"QEMU":       {"qemu-system-x86_64 --version", "QEMU emulator version"},
		"runtime":    runtimeVersion(),
	} {
		out, err := n.Output(t.Context(), "sh", "-c", c.command)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %s: got %q, %v, want %q", name, c.command, out, err, c.want)
		}
	}
}

// check is a command on the node and a part of its expected output.
type check struct{ command, want string }

func runtimeVersion() check {
	name := image.SpecFromEnv().Containerd
	if version, ok := strings.CutPrefix(name, "cri-o-"); ok {
		return check{"crio --version", version}
	}
	if name == image.DistributionContainerd {
		return check{"containerd --version", "containerd"}
	}
	version, _, _ := strings.Cut(name, "-") // 2.4.2-nri0.12.5 is 2.4.2
	return check{"containerd --version", version}
}

// attachOrStart uses the node of the test run if there is one.
func attachOrStart(t *testing.T) *throwaway.Node {
	t.Helper()
	n, err := throwaway.AttachCurrent(t.Context())
	if errors.Is(err, throwaway.ErrNoNode) {
		n, err = throwaway.Start(t.Context(), throwaway.Options{
			Spec: image.SpecFromEnv(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}
