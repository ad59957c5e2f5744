package plugin_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// lockEnv makes the test program lock this many bytes under a limit of [lockLimit], and wait for
// the end of its standard input.
const lockEnv = "MOORING_TEST_LOCK"

const lockLimit = 8 * mi

// lockForParent locks memory if a test started this program for that.
func lockForParent() {
	text, ok := os.LookupEnv(lockEnv)
	if !ok {
		return
	}
	if err := lockMemory(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func lockMemory(text string) error {
	var bytes int
	if _, err := fmt.Sscan(text, &bytes); err != nil {
		return err
	}
	limit := unix.Rlimit{Cur: lockLimit, Max: lockLimit}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("set RLIMIT_MEMLOCK: %w", err)
	}
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	return unix.Mlock(memory)
}

// startLocking starts a process that locks bytes, and waits until it has them.
func startLocking(t *testing.T, bytes int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", lockEnv, bytes))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		must(t, cmd.Wait())
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("process said %q (%v), want locked", line, err)
	}
}

// RLIMIT_MEMLOCK holds for each process. The account of a launcher covers all its processes.
func TestAccountCoversEachProcess(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", decidetest.Lock("8Mi"))
	_, err := n.create(pod, withMemory(newContainer(pod, "compute"), 32*mi))
	must(t, err)
	var locked int64
	for range 4 {
		startLocking(t, 7*mi)
		locked += 7 * mi
	}
	if a := n.registry.Account(); a.Granted < locked {
		t.Errorf("four processes locked %d bytes under a limit of %d each, and the account has "+
			"only %d", locked, lockLimit, a.Granted)
	}
}

// The account has the huge pages of the pod's cgroup, also for a launcher of a pending list.
func TestAccountHasHugePages(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.HugePages = func(podCgroup string) (int64, error) {
		if podCgroup != "/kubepods.slice/kubepods-podu1.slice" {
			return 0, fmt.Errorf("no cgroup %q", podCgroup)
		}
		return 4 * gi, nil
	}
	pod := newPod("u1", decidetest.VFIO())
	pod.Linux = &nri.LinuxPodSandbox{CgroupParent: "kubepods-podu1.slice"}
	ctr := withMemory(n.running(pod, 100, 5*gi), gi)
	_, err := n.Synchronize(t.Context(), []*nri.PodSandbox{pod}, []*nri.Container{ctr})
	must(t, err)
	full := newPod("full", decidetest.Lock("32Gi"))
	if _, err := n.create(full, withMemory(newContainer(full, "compute"), 60*gi)); err == nil ||
		!strings.Contains(err.Error(), "others have 5Gi") {
		t.Errorf("error %v, want one about the account with 5Gi", err)
	}
	must(t, n.PostStartContainer(t.Context(), pod, ctr))
	if a := n.registry.Account(); a.Granted != 5*gi {
		t.Errorf("account %+v, want 1Gi and the 4Gi of huge pages", a)
	}
}

// The memory limit of a launcher does not bound its VM in the node's libvirt. The account has the
// memory lock of the VM, also while the list of the runtime is pending.
func TestAccountHasTheVMOfANodeDomain(t *testing.T) {
	n := newNode(t, policy.Enforce)
	domain := func(uid string) *nri.PodSandbox {
		requests := decidetest.Lock("30Gi")
		maps.Copy(requests, decidetest.Domain("vms-"+uid))
		return newPod(uid, requests)
	}
	pod := domain("u1")
	ctr := withMemory(n.running(pod, 100, 30*gi), gi/2)
	_, err := n.Synchronize(t.Context(), []*nri.PodSandbox{pod}, []*nri.Container{ctr})
	must(t, err)
	other := domain("u2")
	_, err = n.create(other, withMemory(newContainer(other, "compute"), gi/2))
	must(t, err)
	full := domain("u3")
	if _, err := n.create(full, withMemory(newContainer(full, "compute"), gi/2)); err == nil ||
		!strings.Contains(err.Error(), "others have 60Gi") {
		t.Errorf("error %v, want one about the account with 60Gi", err)
	}
	must(t, n.PostStartContainer(t.Context(), pod, ctr))
	if a := n.registry.Account(); a.Granted != 60*gi || a.Unbounded != 2 {
		t.Errorf("account %+v, want 60Gi of two unbounded launchers", a)
	}
}

// The account follows the memory limit of a running launcher.
func TestAccountFollowsTheMemoryLimit(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", decidetest.Lock("8Mi"))
	ctr := withMemory(newContainer(pod, "compute"), 2*gi)
	_, err := n.create(pod, ctr)
	must(t, err)
	must(t, update(n, pod, ctr, 3*gi, 0))
	if a := n.registry.Account(); a.Granted != 3*gi || a.Unbounded != 0 {
		t.Errorf("account %+v, want 3Gi", a)
	}
}

// A memory limit that exceeds the node's account is refused and not recorded.
func TestMemoryLimitBeyondTheAccount(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod, other := newPod("u1", decidetest.VFIO()), newPod("u2", decidetest.VFIO())
	ctr := withMemory(newContainer(pod, "compute"), 4*gi)
	_, err := n.create(pod, ctr)
	must(t, err)
	_, err = n.create(other, withMemory(newContainer(other, "compute"), 40*gi))
	must(t, err)
	must(t, update(n, pod, ctr, 24*gi, 0))
	err = update(n, pod, ctr, 25*gi, 0)
	want := "its processes could then lock 25Gi, the node policy allows 64Gi for all launchers of " +
		"this node together (memlock.nodeMax), and others have 40Gi; kubelet tries again"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	if got := n.launcher(t, pod).Limits.Memory; got != 24*gi {
		t.Errorf("memory limit %d, want 24Gi", got)
	}
	must(t, update(n, pod, ctr, 4*gi, 0))
	must(t, update(n, pod, ctr, 24*gi, 0))
}

// For all sequences of creations, ends and new memory limits: the processes of all launchers
// together cannot lock more than the node's ceiling if each launcher needs a memory limit, and
// each launcher fits an empty node.
func TestAccountProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNode(t, policy.Enforce)
		n.Policy.Get().Memlock.RequireMemoryLimit = true
		n.HugePages = func(string) (int64, error) { return 3 * gi, nil }
		limits := map[string]int64{} // of running launchers
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			uid := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "pod")
			memory := rapid.SampledFrom([]int64{0, gi, 20 * gi, 61 * gi}).Draw(rt, "memory")
			pod := newPod(uid, decidetest.Lock("1Gi"))
			ctr := withMemory(newContainer(pod, "compute"), memory)
			_, runs := limits[uid]
			switch end := rapid.Bool().Draw(rt, "end"); {
			case runs && end:
				_, err := n.StopContainer(t.Context(), pod, ctr)
				must(t, err)
				delete(limits, uid)
			case runs && memory > 0:
				if update(n, pod, ctr, memory, 0) == nil {
					limits[uid] = memory
				}
			case !runs:
				_, err := n.create(pod, ctr)
				if err == nil {
					limits[uid] = memory
				} else if len(limits) == 0 && memory > 0 {
					rt.Fatalf("an empty node refuses %d bytes: %v", memory, err)
				}
			}
			var sum int64
			for _, limit := range limits {
				sum += limit + 3*gi
			}
			if got := n.registry.Account().Granted; got != sum || sum > 64*gi {
				rt.Fatalf("account %d, launchers can lock %d, ceiling 64Gi", got, sum)
			}
		}
	})
}
