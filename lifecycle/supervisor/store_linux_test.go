package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func newStore(t *testing.T, root string) *FileStore {
	t.Helper()
	s, err := OpenFileStore(root, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func storedTie(id string) tie.Tie {
	process := host.Process{PID: 4, StartTime: 5}
	return tie.Tie{
		Launcher: tie.Launcher{
			Pod:       agentapi.PodRef{Namespace: "vms", Name: "vm", UID: "u"},
			Container: agentapi.ContainerRef{Name: "compute", ID: id},
			Group:     7,
		},
		Phase: agentapi.PhaseDraining, Why: "w", LauncherProcess: &process, StopRequested: true,
		VMs: []tie.VM{{
			Process: host.Process{PID: 8, StartTime: 9}, Executable: "qemu-kvm",
			State: agentapi.VMStopping, Stage: tie.StageTerm, Due: 10,
		}},
	}
}

func TestFileStore(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	one, two := storedTie("one"), storedTie("two")
	for _, tie := range []tie.Tie{one, two, two} {
		if err := s.Save(tie); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete("one"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("one"); err != nil {
		t.Errorf("Delete of a missing tie: %v", err)
	}
	got, err := newStore(t, root).Load() // by another process
	diff := cmp.Diff([]tie.Tie{two}, got, cmp.AllowUnexported(tie.Tie{}))
	if diff != "" || err != nil {
		t.Errorf("Load: %v (-want +got)\n%s", err, diff)
	}
	if info, err := os.Stat(filepath.Join(root, tiesDir)); err != nil ||
		info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v, want mode 0700", info, err)
	}
}

func TestFileStoreSkipsUnchangedTies(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	tie := storedTie("one")
	if err := s.Save(tie); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, tiesDir, "one.json")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(tie); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("an unchanged tie was written again: %v", err)
	}
}

func TestFileStoreOfAnotherBoot(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	s.boot = "another"
	if err := s.Save(storedTie("one")); err != nil {
		t.Fatal(err)
	}
	if got, err := newStore(t, root).Load(); err != nil || len(got) != 0 {
		t.Errorf("ties of another boot: %v, %v, want none", got, err)
	}
	if left, err := os.ReadDir(filepath.Join(root, tiesDir)); err != nil || len(left) != 0 {
		t.Errorf("files after Load: %v, %v, want none", left, err)
	}
}

func TestFileStoreWithBadFiles(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	if err := s.Save(storedTie("good")); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty.json": "", "broken.json": `{"boot": "`, "noboot.json": "{}",
		"large.json":   strings.Repeat(" ", maxStored+1),
		"renamed.json": `{"boot":"` + s.boot + `","tie":{}}`,
		"half.new":     "{", // an interrupted Save
	} {
		if err := os.WriteFile(filepath.Join(root, tiesDir, name), []byte(content),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("good.json", filepath.Join(root, tiesDir, "link.json")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load()
	if len(got) != 1 || got[0].Launcher.Container.ID != "good" {
		t.Errorf("Load = %+v, want only the valid tie", got)
	}
	if _, err := os.Stat(filepath.Join(root, tiesDir, "half.new")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("Load kept an unfinished file: %v", err)
	}
	for _, id := range []string{"empty", "broken", "noboot", "large", "renamed", "link"} {
		if err == nil || !strings.Contains(err.Error(), "container "+id+":") {
			t.Errorf("error %v, want it to name container %s", err, id)
		}
	}
}

// A later version may give a field another meaning. Load leaves its files alone and names them.
func TestFileStoreOfALaterVersion(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	if err := s.Save(storedTie("one")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, tiesDir, "one.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(data), `"version":1,`, "", 1)
	later = strings.Replace(later, "{", `{"version":2,`, 1)
	if err := os.WriteFile(path, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load()
	if len(got) != 0 || err == nil || !strings.Contains(err.Error(), "container one: version 2") {
		t.Errorf("Load: %+v, %v, want an error with the version", got, err)
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != later {
		t.Errorf("the file is %q, %v, want it unchanged", left, err)
	}
}

// A tie of a later version may have a VM of its pod, and a damaged one of any pod. A tie of another
// boot has none.
func TestUnreadableTie(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	one := storedTie("one")
	one.Launcher.Pod.UID = "uid-one"
	if err := s.Save(one); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, tiesDir, "one.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(data), `"version":1`, `"version":2`, 1)
	for name, c := range map[string]struct {
		content    string
		own, other bool // the tie may be of the pod, or of another one
	}{
		"readable":          {string(data), false, false},
		"later version":     {later, true, false},
		"another type":      {strings.Replace(later, `"vms":`, `"vms":1,"x":`, 1), true, false},
		"damaged":           {"{", true, true},
		"damaged boot":      {strings.Replace(later, s.boot, "", 1), true, false},
		"of another boot":   {strings.Replace(later, s.boot, "another", 1), false, false},
		"readable, as such": {strings.Replace(string(data), s.boot, "another", 1), false, false},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		for uid, want := range map[string]bool{"uid-one": c.own, "uid-two": c.other} {
			if err := s.UnreadableTie(uid); (err != nil) != want ||
				err != nil && !strings.Contains(err.Error(), "container one") {
				t.Errorf("%s: %s: %v, want an error: %t", name, uid, err, want)
			}
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != c.content {
			t.Errorf("%s: the file is %q, %v, want it unchanged", name, left, err)
		}
	}
}

// An agent of v0.1.0 stored start times in ticks, without a version.
func TestFileStoreOfTheFirstVersion(t *testing.T) {
	root := t.TempDir()
	s := newStore(t, root)
	content := `{"boot":"` + s.boot + `","tie":{"launcher":{"container":{"id":"one"}},
		"owner":{"PID":4,"StartTime":5,"Cgroup":""},
		"vms":[{"PID":8,"StartTime":9,"Cgroup":"","executable":"qemu-kvm"}]}}`
	if err := os.WriteFile(filepath.Join(root, tiesDir, "one.json"), []byte(content),
		0o600); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load()
	if err != nil || len(got) != 1 || *got[0].LauncherProcess != host.ProcessAt(4, 5) ||
		got[0].VMs[0].Process != host.ProcessAt(8, 9) {
		t.Errorf("Load: %+v, %v, want both processes with their start times", got, err)
	}
}

func TestFileStoreOpenTwice(t *testing.T) {
	root := t.TempDir()
	agent, fence, next := newStore(t, root), newStore(t, root), newStore(t, root)
	var writers sync.WaitGroup
	for i, s := range []*FileStore{agent, fence} {
		writers.Go(func() {
			tie := storedTie("one")
			for n := range 200 {
				tie.Why = strings.Repeat(strconv.Itoa(i), n)
				if err := s.Save(tie); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if got, err := next.Load(); err != nil || len(got) > 1 || over && len(got) != 1 {
			t.Errorf("loaded %d ties, %v", len(got), err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, tiesDir)); err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v, want one", left, err)
	}
}

func TestFileStoreRefusesInvalidIDs(t *testing.T) {
	s := newStore(t, t.TempDir())
	for _, id := range []string{"", "../x", "a/b", ".hidden"} {
		if err := s.Save(storedTie(id)); err == nil {
			t.Errorf("Save accepted the ID %q", id)
		}
	}
}

func FuzzDecodeStored(f *testing.F) {
	f.Add([]byte(`{"boot":"b","tie":{"launcher":{"container":{"id":"x"}},"vms":[{"pid":1}]}}`))
	f.Add([]byte(`{"boot":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		stored, boot, err := decodeStored(data)
		if err != nil {
			return
		}
		if boot == "" {
			t.Error("a tie without a boot ID")
		}
		tie.Step(stored, 1, tie.TimePassed{})
	})
}

// Former launchers are no ties: the fence has nothing to do for them.
func TestFormerStore(t *testing.T) {
	root := t.TempDir()
	former, err := OpenFormerStore(root, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	ties := newStore(t, root)
	var stored tie.Tie
	stored.Launcher.Container.ID, stored.Launcher.Domain = "c1", "vm-1"
	if err := former.Save(stored); err != nil {
		t.Fatal(err)
	}
	if all, err := ties.Load(); err != nil || len(all) != 0 || HasTies(root) {
		t.Errorf("ties %+v, %v, %t", all, err, HasTies(root))
	}
	if all, err := former.Load(); err != nil || len(all) != 1 {
		t.Errorf("former launchers %+v, %v", all, err)
	}
}
