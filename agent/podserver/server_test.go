package podserver_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/shim/agent"
)

// Each pod directory has the pod's socket until the directory is deleted, and again when it is made
// anew.
func TestServer(t *testing.T) {
	r := newRig(t)
	root, err := os.MkdirTemp("", "m") // paths of sockets must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	dirs, err := poddir.Open(root)
	must(t, err)
	defer dirs.Close()
	_, err = dirs.Create("a")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := &podserver.Server{Dirs: dirs, Pods: r, Logger: slog.New(slog.DiscardHandler)}
	go func() { done <- server.Run(ctx) }()

	answers := func(uid string, vm int) {
		t.Helper()
		n := agent.New(filepath.Join(root, "pods", uid, "agent.sock"))
		eventually(t, "an answer to pod "+uid, func() bool {
			seen, err := n.Observed(t.Context())
			return err == nil && seen.VM == vm
		})
	}
	answers("a", 101)
	_, err = dirs.Create("b")
	must(t, err)
	answers("b", 201)
	before := agent.New(filepath.Join(root, "pods", "a", "agent.sock"))
	_, err = before.Observed(t.Context()) // and keeps the connection
	must(t, err)
	must(t, dirs.DiscardUnless("a", func(string) bool { return false }))
	eventually(t, "the end of pod a's socket", func() bool {
		_, err := before.Observed(t.Context())
		return err != nil
	})
	answers("b", 201)
	_, err = dirs.Create("a")
	must(t, err)
	answers("a", 101)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
