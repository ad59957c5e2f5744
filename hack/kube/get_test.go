package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "a_total 1")
	}))
	defer server.Close()
	if got, err := Get(t.Context(), server.URL+"/metrics"); err != nil || got != "a_total 1" {
		t.Errorf("got %q, %v", got, err)
	}
	for url, want := range map[string]string{
		server.URL + "/readyz": "503 Service Unavailable: not yet", "http://127.0.0.1:1": "refused",
		"%": "parse"} {
		if got, err := Get(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want an error with %q", url, got, err, want)
		}
	}
}
