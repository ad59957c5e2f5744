package headroom

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api/podapi"
)

// A flag wins over the policy, and the policy over the host. Each capacity is independent.
func TestSource(t *testing.T) {
	host := Host{Memory: 1024, CPUs: 2}
	both := podapi.Headroom{Memory: 4 << 30, CPUs: 8}
	for name, c := range map[string]struct {
		args   string
		policy podapi.Headroom
		want   Host
		from   []string
	}{
		"no source": {"", podapi.Headroom{}, host, nil},
		"policy":    {"", both, Host{4096, 8}, []string{"memory", "CPUs"}},
		"memory": {
			"",
			podapi.Headroom{Memory: 4 << 30},
			Host{4096, 2},
			[]string{"memory"},
		},
		"flag for memory": {"--memory-capacity 5", both, Host{1024, 8}, []string{"CPUs"}},
		"the host's CPUs": {"--cpu-capacity 0", both, Host{4096, 2}, []string{"memory"}},
		"other flag":      {"--memory-slots 4", both, Host{4096, 8}, []string{"memory", "CPUs"}},
		"no call for flags": {
			"--memory-capacity 5 --cpu-capacity 7",
			podapi.Headroom{Memory: -1},
			host,
			nil,
		},
		"no call for zeros": {
			"--memory-capacity 0 --cpu-capacity -1",
			podapi.Headroom{Memory: -1},
			host,
			nil,
		},
	} {
		source := Source{Host: host, Policy: func(context.Context) (podapi.Headroom, error) {
			if c.policy.Memory < 0 {
				t.Errorf("%s: Policy was called", name)
			}
			return c.policy, nil
		}}
		var o Options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		if err := flags.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		source.UseFlags(flags)
		got, from, err := source.Read(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]any{c.want, c.from}, []any{got, from}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestSourceError(t *testing.T) {
	bad, host := errors.New("bad"), Host{Memory: 1, CPUs: 2}
	source := Source{
		Host: host,
		Policy: func(context.Context) (podapi.Headroom, error) {
			return podapi.Headroom{Memory: 1 << 40}, bad
		},
	}
	got, from, err := source.Read(t.Context())
	if got != host || from != nil || !errors.Is(err, bad) {
		t.Errorf("%+v of %v, %v", got, from, err)
	}
}
