package poddir_test

import (
	"context"
	"testing"
)

// Each directory has a working socket, one at a time, and a complete report.
func TestPodDirsListen(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	dir := createPodDir(t, d, "u1")
	first, id, err := d.Listen(context.Background(), "u1")
	if err != nil {
		t.Fatal(err)
	}
	checkMode(t, dir.Path+"/agent.sock", socketMode)
	dial(t, dir.Path+"/agent.sock")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, again, err := d.Listen(context.Background(), "u1")
	if err != nil || again != id {
		t.Fatalf("%v, another directory: %t", err, again != id)
	}
	defer second.Close()
	dial(t, dir.Path+"/agent.sock")
	for _, text := range []string{"one", "two"} {
		if err := d.WriteReport("u1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		checkMode(t, dir.Path+"/resize.json", 0o444)
		if got := read(t, dir.Path+"/resize.json"); got != text {
			t.Errorf("the report is %q, want %q", got, text)
		}
		if err := d.WriteVM("u1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		checkMode(t, dir.Path+"/vm.json", 0o444)
		if got := read(t, dir.Path+"/vm.json"); got != text {
			t.Errorf("the VM is %q, want %q", got, text)
		}
	}
	if diff := diffNames(t, dir.Path, "agent.sock", "hook", "pod", "resize.json",
		"vm.json"); diff != "" {
		t.Errorf("files in the directory (-want +got)\n%s", diff)
	}
	if _, err := d.Create("u1"); err != nil {
		t.Errorf("a directory with a socket: %v", err)
	}
	if now, err := d.ID("u1"); now != id || err != nil {
		t.Errorf("Create made another directory, %v", err)
	}
	for _, uid := range []string{"u2", "../u1", ""} {
		if _, _, err := d.Listen(context.Background(), uid); err == nil {
			t.Errorf("pod %q has a socket", uid)
		}
		if err := d.WriteReport(uid, nil); err == nil {
			t.Errorf("pod %q has a report", uid)
		}
	}
}

// Follow reports existing, new and removed directories.
func TestPodDirsFollow(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	createPodDir(t, d, "u1")
	ctx, cancel := context.WithCancel(context.Background())
	reported := make(chan string, 10)
	done := make(chan error, 1)
	go func() { done <- d.Follow(ctx, func(uid string) { reported <- uid }) }()
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "u1"},
		{func() { createPodDir(t, d, "u2") }, "u2"},
		{func() { _ = d.DiscardUnless("u1", noPod) }, "u1"},
	} {
		step.do()
		if got := <-reported; got != step.want {
			t.Errorf("changed(%q), want %q", got, step.want)
		}
	}
	if err := d.Follow(ctx, nil); err == nil {
		t.Error("a second Follow succeeds")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
