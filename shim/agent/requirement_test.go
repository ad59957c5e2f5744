package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// A repeated requirement on a new stream must not overtake a newer one.
func TestRequirementOrder(t *testing.T) {
	received, answer := make(chan string), make(chan struct{})
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == podapi.PathMemoryRequirement {
			body, _ := io.ReadAll(r.Body)
			received <- string(body)
			<-answer
			fmt.Fprint(w, "{}")
			return
		}
		fmt.Fprintf(w, `{"changed":%q}`+"\n", podapi.ChangedNone)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	done := make(chan error)
	requirement := func(bytes uint64) {
		go func() { done <- n.RequireMemory(t.Context(), bytes) }()
	}
	next := func(want string) {
		t.Helper()
		if got := <-received; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	requirement(1)
	next(`{"bytes":1}`)
	answer <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := n.Changed(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(`{"bytes":1}`) // repeated; the answer comes later
	requirement(2)
	select {
	case body := <-received:
		t.Errorf("got %s before the answer to the earlier request", body)
	case <-time.After(100 * time.Millisecond): // time for a wrong request
	}
	answer <- struct{}{}
	next(`{"bytes":2}`)
	answer <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
