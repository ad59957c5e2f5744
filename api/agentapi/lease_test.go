package agentapi

import (
	"strings"
	"testing"
	"time"
)

func TestLeaseRequest(t *testing.T) {
	tests := map[string]struct {
		request LeaseRequest
		want    string // of the error; empty: none
	}{
		"shortest":        {LeaseRequest{1, "m"}, ""},
		"longest":         {LeaseRequest{3600, "migration of vm-1 to node-2"}, ""},
		"longest reason":  {LeaseRequest{60, strings.Repeat("x", MaxLeaseReason)}, ""},
		"no time":         {LeaseRequest{0, "m"}, "seconds: 0: want 1 to 3600"},
		"in the past":     {LeaseRequest{-5, "m"}, "seconds: -5: want 1 to 3600"},
		"too long":        {LeaseRequest{3601, "m"}, "seconds: 3601: want 1 to 3600"},
		"for ever":        {LeaseRequest{1 << 62, "m"}, "want 1 to 3600"},
		"no reason":       {LeaseRequest{60, ""}, `reason: "": want one line`},
		"blank reason":    {LeaseRequest{60, " "}, `reason: " ": want one line`},
		"two lines":       {LeaseRequest{60, "a\nb"}, `reason: "a\nb": want one line`},
		"escape sequence": {LeaseRequest{60, "\x1b[2J"}, `reason: "\x1b[2J": want one line`},
		"no text":         {LeaseRequest{60, "\xff"}, `reason: "\xff": want one line`},
		"too much to read": {LeaseRequest{60, strings.Repeat("x", MaxLeaseReason+1)},
			"reason: 201 bytes: want at most 200"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.request.Check()
			if (err == nil) != (tt.want == "") || err != nil &&
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if got := (LeaseRequest{Seconds: 90}).Period(); got != 90*time.Second {
		t.Errorf("period %s", got)
	}
}
