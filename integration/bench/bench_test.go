package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

// TestMain runs the plugin or agent command if the arguments name it, because the program starts
// itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		return
	}
	setUpNRI()
	os.Exit(m.Run())
}

func TestPolicy(t *testing.T) {
	if _, err := policy.Parse(nodePolicy); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrips(t *testing.T) {
	const rounds = 3
	found, err := roundTrips(t.Context(), rounds)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range candidates() {
		for _, w := range workloads() {
			if n := len(found[cell(c, w.name)]); n != rounds {
				t.Errorf("%s: %d measurements, want %d", cell(c, w.name), n, rounds)
			}
		}
	}
	if rows := roundTripRows(found); len(rows) != len(candidates())*len(workloads()) {
		t.Errorf("%d rows, want one for each", len(rows))
	}
}

// A plugin that does not set the expected limits is an error.
func TestAnEmptyAnswerIsNoticed(t *testing.T) {
	c, err := startCandidate(t.Context(), empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, _, err := c.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.name = mooring
	w := workloads()[1]
	if _, err := (request{c, w.name, w.container(0)}).measure(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "set 0 limits") {
		t.Errorf("measure = %v, want it to say that no limit was set", err)
	}
}

func TestAPluginThatDoesNotConnect(t *testing.T) {
	c, err := startCandidate(t.Context(), empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.connect(ctx); err == nil ||
		!strings.Contains(err.Error(), "does not connect") {
		t.Errorf("connect = %v, want it to say that the plugin does not connect", err)
	}
	// The plugin connects later. NRI's runtime side has a race with a plugin that ends during its
	// registration.
	if _, err := c.awaitPlugin(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConnections(t *testing.T) {
	const rounds = 3
	found, err := connections(t.Context(), rounds, 20)
	if err != nil {
		t.Fatal(err)
	}
	handled, err := handler(t.Context(), rounds, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range synchronizeRows(found, handled) {
		if row.Summary.N != rounds {
			t.Errorf("%s, %s: %d measurements, want %d", row.Measurement, row.Candidate,
				row.Summary.N, rounds)
		}
	}
}

func TestProfileHandler(t *testing.T) {
	file := filepath.Join(t.TempDir(), "handler.prof")
	b, err := profileHandler(t.Context(), 3, file)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.took) != 3 || len(handlerRows(b)) != 1+len(parts()) {
		t.Errorf("breakdown = %+v, want 3 launchers and a share of each part", b)
	}
	if s, err := os.Stat(file); err != nil || s.Size() == 0 {
		t.Errorf("the profile was not written: %v", err)
	}
}

func TestSharesOf(t *testing.T) {
	stack := func(value int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range names {
			s.Location = append(s.Location,
				&profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	const handler = "example.org/plugin.(*Plugin).CreateContainer"
	got := sharesOf(&profile.Profile{Sample: []*profile.Sample{
		stack(30, "syscall.Syscall", "example.org/lifecycle/poddir.(*Dirs).Create", handler),
		stack(60, "example.org/api.Parse", "example.org/decide.Container", handler),
		stack(10, handler),
		stack(99, "example.org/lifecycle/poddir.(*Dirs).EmptyTrash",
			"example.org/plugin.(*Plugin).Run"),
	}})
	if want := []float64{0.3, 0, 0.6, 0, 0, 0, 0.1}; !slices.Equal(got, want) {
		t.Errorf("shares = %v, want %v", got, want)
	}
}

// A part whose pattern no function has any more would get no samples.
func TestPartsMatchFunctions(t *testing.T) {
	for part, function := range []any{
		(*poddir.Dirs).Create, (*registry.Registry).Update, decide.Container, nil,
		(*slog.Logger).Info, (*metrics.Metrics).Request, (*plugin.Plugin).CreateContainer,
	} {
		if function == nil {
			continue // plugin.adjustment is not exported
		}
		name := goruntime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
		if got := partOf([]string{name}); got != part {
			t.Errorf("%s belongs to part %d, want %q", name, got, parts()[part].name)
		}
	}
}

func TestCreateRows(t *testing.T) {
	found := samples{}
	for i := range 10 {
		for _, w := range workloads() {
			found.add(cell(without, w.name), time.Duration(10+i)*time.Second)
			found.add(cell(with, w.name), time.Duration(10+i)*time.Second)
		}
	}
	rows := createRows(found)
	if len(rows) != 2*len(workloads()) {
		t.Fatalf("%d rows, want one for each workload and condition", len(rows))
	}
	for _, row := range rows {
		if (row.Ratio != nil) != (row.Candidate == with) {
			t.Errorf("%s, %s: ratio %v, want one for each comparison", row.Measurement,
				row.Candidate, row.Ratio)
		}
		if row.Ratio != nil && (row.Ratio.Low != 1 || row.Ratio.High != 1) {
			t.Errorf("%s: ratio %+v, want 1 however the pairs drift", row.Measurement, *row.Ratio)
		}
	}
}

func TestUsage(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.rss < 1<<20 || u.anonymous <= 0 || u.anonymous > u.rss || u.pss <= 0 || u.pss > u.rss ||
		u.switches == 0 {
		t.Errorf("usage of this process = %+v, want positive values, and each share at most "+
			"the whole", u)
	}
	later := u
	later.at, later.cpu, later.switches = u.at.Add(10*time.Second), u.cpu+0.5, u.switches+20
	if i := (idle{before: u, after: later}); i.cores() < 0.0499 || i.cores() > 0.0501 ||
		i.switches() != 2 {
		t.Errorf("%v of a core and %v switches per second, want 0.05 and 2", i.cores(),
			i.switches())
	}
	if _, err := usageOf(1 << 30); err == nil {
		t.Error("no error for the usage of a missing process")
	}
}
