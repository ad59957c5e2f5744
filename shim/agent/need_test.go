package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// TestNeedIsToldInOrder: what is told again on a new stream does not come after what is
// told anew meanwhile.
func TestNeedIsToldInOrder(t *testing.T) {
	told, answer := make(chan string), make(chan struct{})
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == podapi.PathMemoryRequirement {
			body, _ := io.ReadAll(r.Body)
			told <- string(body)
			<-answer
			fmt.Fprint(w, "{}")
			return
		}
		fmt.Fprintf(w, `{"changed":%q}`+"\n", podapi.ChangedNone)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	done := make(chan error)
	need := func(bytes uint64) { go func() { done <- n.RequireMemory(t.Context(), bytes) }() }
	next := func(want string) {
		t.Helper()
		if got := <-told; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
	need(1)
	next(`{"bytes":1}`)
	answer <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := n.Changed(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(`{"bytes":1}`) // again, and not answered yet
	need(2)
	select {
	case body := <-told:
		t.Errorf("told %s while the agent is being told of another need", body)
	case <-time.After(100 * time.Millisecond): // for what must not come
	}
	answer <- struct{}{}
	next(`{"bytes":2}`)
	answer <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
