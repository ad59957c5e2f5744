package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	now     = 1000 * time.Second
	vmUUID  = "5530f9f3-5627-4dec-933e-74ce04c51e18"
	vm3     = "<domain type='kvm'><name>vm-3</name><uuid>" + vmUUID + "</uuid></domain>"
	vm3Call = "vm-3 prepare begin -"
)

// fixture is a hook with its files. The launcher process 7 lives.
type fixture struct {
	Hook
	state string
}

func newFixture(t *testing.T, state *State) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{state: filepath.Join(dir, "gate.json")}
	f.Config = filepath.Join(dir, "config.json")
	f.Now = func() time.Duration { return now }
	f.Alive = func(pid int, ticks uint64) (bool, error) { return pid == 7 && ticks == 70, nil }
	writeJSON(t, f.Config, Config{Version, f.state, []string{"vm-*"}})
	if state != nil {
		if err := state.Write(f.state); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func writeJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func activeOwner() Owner {
	return Owner{Domain: "vm-3", Pod: "vms/vm-3", PID: 7, Ticks: 70, HeartbeatUntil: now}
}

// fresh returns a state that allows vm-3, with changes.
func fresh(change func(*State)) *State {
	s := &State{Written: now - time.Second, RequireOwner: []string{"vm-*"},
		Owners: []Owner{activeOwner()}}
	if change != nil {
		change(s)
	}
	return s
}

func owner(change func(*Owner)) *State { return fresh(func(s *State) { change(&s.Owners[0]) }) }

// expect fails the test unless the hook refuses the call for this reason; empty: it allows it. The
// hook's waits take no time.
func (f fixture) expect(t *testing.T, call, stdin, refusal string) {
	t.Helper()
	var err error
	synctest.Test(t, func(*testing.T) {
		err = f.Call(strings.Fields(call), strings.NewReader(stdin))
	})
	switch {
	case refusal == "" && err != nil:
		t.Errorf("%s: refused: %v", call, err)
	case refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)):
		t.Errorf("%s: got %v, want a refusal with %q", call, err, refusal)
	}
}

// Only prepare begin and start begin are refused, with or without the agent's state.
func TestOperations(t *testing.T) {
	operations := map[string][]string{
		"prepare": {"begin"}, "start": {"begin"}, "started": {"begin"}, "stopped": {"end"},
		"release": {"end"}, "migrate": {"begin"}, "restore": {"begin"}, "reconnect": {"begin"},
		"attach": {"begin"}, "unknown": {"begin", "end"},
	}
	for _, state := range []*State{nil, fresh(func(s *State) { s.Owners = nil })} {
		f := newFixture(t, state)
		for operation, subs := range operations {
			for _, sub := range append(subs, "end", "-") {
				want := ""
				if sub == "begin" && (operation == "prepare" || operation == "start") {
					want = "the start gate refuses domain vm-3"
				}
				f.expect(t, "vm-3 "+operation+" "+sub+" -", vm3, want)
			}
		}
		for _, call := range []string{"", "vm-3", "vm-3 prepare"} {
			f.expect(t, call, vm3, "")
		}
	}
}

func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		state   *State
		call    string
		refusal string
	}{
		"active owner":            {fresh(nil), vm3Call, ""},
		"active owner at start":   {fresh(nil), "vm-3 start begin -", ""},
		"owner by UUID":           {owner(func(o *Owner) { o.Domain = vmUUID }), vm3Call, ""},
		"owner without heartbeat": {owner(func(o *Owner) { o.HeartbeatUntil = 0 }), vm3Call, ""},
		"other name":              {fresh(nil), "db prepare begin -", ""},
		"empty list of the agent": {fresh(func(s *State) { s.RequireOwner, s.Owners = nil, nil }),
			vm3Call, ""},
		"new list of the agent": {fresh(func(s *State) { s.RequireOwner = []string{"db"} }),
			"db prepare begin -", `want "db"`},
		"state of this moment":     {fresh(func(s *State) { s.Written = now }), vm3Call, ""},
		"old state, unlisted name": {fresh(func(s *State) { s.Written = 0 }), "db start begin -", ""},
		"old state without names": {fresh(func(s *State) { s.Written, s.RequireOwner = 0, nil }),
			vm3Call, "16m40s old"},
		"no state, unlisted name": {nil, "db start begin -", ""},
		"no state":                {nil, vm3Call, "gate.json is missing; start the agent"},
		"no owner":                {fresh(func(s *State) { s.Owners = nil }), vm3Call, `dev: "vm-3"`},
		"owner of another domain": {owner(func(o *Owner) { o.Domain = "vm-4" }), vm3Call, "declares it"},
		"late heartbeat":          {owner(func(o *Owner) { o.HeartbeatUntil-- }), vm3Call, "late by"},
		"launcher ended":          {owner(func(o *Owner) { o.PID = 8 }), vm3Call, "8 has ended"},
		"pid of another process":  {owner(func(o *Owner) { o.Ticks = 71 }), vm3Call, "7 has ended"},
		"inactive":                {owner(func(o *Owner) { o.Inactive = "it ends" }), vm3Call, "it ends"},
		"oldest accepted state":   {fresh(func(s *State) { s.Written = now - MaxAge }), vm3Call, ""},
		"old state":               {fresh(func(s *State) { s.Written = 0 }), vm3Call, "16m40s old"},
		"state from the future":   {fresh(func(s *State) { s.Written = now + 1 }), vm3Call, "old"},
		"probe":                   {fresh(nil), Probe + " prepare begin -", ProbeRefused},
		"probe without a state":   {nil, Probe + " prepare begin -", ProbeRefused},
		"end of the probe":        {nil, Probe + " release end -", ""},
		"second owner is the active": {fresh(func(s *State) {
			s.Owners = []Owner{{Domain: "vm-3", Inactive: "it ends"}, activeOwner()}
		}), vm3Call, ""},
	} {
		t.Run(name, func(t *testing.T) { newFixture(t, c.state).expect(t, c.call, vm3, c.refusal) })
	}
}

// In observe mode the hook refuses no start, and records once each start for a refusal.
func TestObserveMode(t *testing.T) {
	observe := func(change func(*State)) *State {
		return fresh(func(s *State) {
			s.RequireOwner, s.ObserveOwner = nil, []string{"vm-*"}
			change(s)
		})
	}
	unowned := func(s *State) { s.Owners = nil }
	for name, c := range map[string]struct {
		state  *State
		call   string
		stdin  string
		reason string // of the record; empty: there is none
	}{
		"active owner":  {observe(func(*State) {}), vm3Call, vm3, ""},
		"no owner":      {observe(unowned), vm3Call, vm3, "no launcher on this node declares it"},
		"ended":         {observe(func(s *State) { s.Owners[0].PID = 8 }), vm3Call, vm3, "8 has ended"},
		"no definition": {observe(unowned), vm3Call, "", "definition is unreadable"},
		"start":         {observe(unowned), "vm-3 start begin -", vm3, ""},
		"reconnect":     {observe(unowned), "vm-3 reconnect begin -", vm3, ""},
		"unlisted name": {observe(unowned), "db prepare begin -", vm3, ""},
		"enforced":      {fresh(unowned), vm3Call, vm3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.state)
			refusal := ""
			if name == "enforced" {
				refusal = "no launcher"
			}
			f.expect(t, c.call, c.stdin, refusal)
			all, err := TakeRefusals(filepath.Join(filepath.Dir(f.state), RefusalsName))
			if err != nil || (len(all) == 1) != (c.reason != "") || len(all) > 1 {
				t.Fatalf("refusals %+v, %v, want one with %q", all, err, c.reason)
			}
			if c.reason != "" && (all[0].Domain != "vm-3" || all[0].At != now ||
				!strings.Contains(all[0].Reason, c.reason)) {
				t.Errorf("refusal %+v, want %q", all[0], c.reason)
			}
		})
	}
}

// Without a fresh state the hook follows its own list, as in enforce mode.
func TestObserveModeWithAnOldState(t *testing.T) {
	old := fresh(func(s *State) {
		s.Written, s.RequireOwner, s.ObserveOwner = 0, nil, []string{"*"}
	})
	f := newFixture(t, old)
	f.expect(t, vm3Call, vm3, "16m40s old")
	f.expect(t, "db prepare begin -", vm3, "")
}

// The file of refusals is bounded, and survives damage and hostile names.
func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), RefusalsName)
	expect := func(step string, domains int, damaged bool) (all []Refusal) {
		t.Helper()
		all, err := TakeRefusals(path)
		if len(all) != domains || (err != nil) != damaged {
			t.Fatalf("%s: %d refusals, %v, want %d, damage: %t", step, len(all), err, domains, damaged)
		}
		return all
	}
	expect("no file", 0, false)
	hostile := Refusal{Domain: "a\nb\xff", Reason: strings.Repeat("x", 1<<20)}
	recorded := 0
	for hostile.record(path) == nil {
		recorded++
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxRefusals || recorded == 0 {
		t.Fatalf("%d refusals in %+v, %v", recorded, info, err)
	}
	all := expect("full", recorded, false)
	if len(all[0].Reason) != maxReason {
		t.Errorf("a reason of %d bytes", len(all[0].Reason))
	}
	expect("taken", 0, false)
	if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Refusal{Domain: "vm-3"}).record(path); err != nil {
		t.Fatal(err)
	}
	expect("damaged", 1, true)
	expect("after the damage", 0, false)
}

// An agent that hangs with the lock cannot block libvirt.
func TestRefusalWithALockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), RefusalsName)
	agent, err := openRefusals(path, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := Refusal{Domain: "vm-3"}.record(path)
		if took := time.Since(began); err == nil || took > 2*time.Second-timeout {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// A malformed definition refuses the listed names only.
func TestHostileDefinitions(t *testing.T) {
	entities := `<!DOCTYPE d [<!ENTITY a "vm-3"><!ENTITY b "&a;&a;">]>`
	for name, stdin := range map[string]string{
		"empty":            "",
		"truncated":        vm3[:len(vm3)-3],
		"no XML":           "\x00\xff<",
		"other root":       strings.ReplaceAll(vm3, "domain", "network"),
		"entities":         entities + strings.Replace(vm3, "vm-3", "&b;", 1),
		"other name":       strings.Replace(vm3, "vm-3", "vm-4", 1),
		"two names":        strings.Replace(vm3, "<uuid>", "<name>vm-3</name><uuid>", 1),
		"no UUID":          "<domain><name>vm-3</name></domain>",
		"nested name only": "<domain><metadata><name>vm-3</name></metadata></domain>",
		"huge":             "<domain>" + strings.Repeat("<a/>", maxDefinition/4) + vm3[8:],
		"deep":             "<domain>" + strings.Repeat("<a>", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fresh(nil))
			f.expect(t, vm3Call, stdin, "definition is unreadable")
			f.expect(t, "db prepare begin -", stdin, "")
			f.expect(t, "vm-3 reconnect begin -", stdin, "")
		})
	}
}

// blocked is a pipe without a writer's end of file.
type blocked struct{ ended chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.ended
	return 0, io.EOF
}

// The hook waits less than two seconds for a definition, and only for a name in the list.
func TestDefinitionThatNeverEnds(t *testing.T) {
	f := newFixture(t, fresh(nil))
	synctest.Test(t, func(t *testing.T) {
		stdin := blocked{make(chan struct{})}
		defer close(stdin.ended)
		began := time.Now()
		if err := f.Call(strings.Fields("vm-3 reconnect begin -"), stdin); err != nil ||
			time.Since(began) != 0 {
			t.Errorf("reconnect: %v after %s", err, time.Since(began))
		}
		err := f.Call(strings.Fields(vm3Call), stdin)
		if took := time.Since(began); err == nil || took > 2*time.Second {
			t.Errorf("prepare: %v after %s", err, took)
		}
	})
}

// A launcher starts its domain at once: the agent learns of the launcher and of its heartbeat while
// the hook waits. A refusal that stays takes less than two seconds.
func TestLauncherThatStartsItsDomainAtOnce(t *testing.T) {
	unknown := owner(func(o *Owner) { o.Inactive = "try again" })
	for name, c := range map[string]struct {
		state  *State
		known  time.Duration // when the agent writes an active owner
		refuse bool
	}{
		"no owner yet":     {fresh(func(s *State) { s.Owners = nil }), 300 * time.Millisecond, false},
		"no heartbeat yet": {unknown, time.Second, false},
		"too late":         {unknown, 2 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.state)
			synctest.Test(t, func(t *testing.T) {
				time.AfterFunc(c.known, func() {
					if err := fresh(nil).Write(f.state); err != nil {
						t.Error(err)
					}
				})
				began := time.Now()
				err := f.Call(strings.Fields(vm3Call), strings.NewReader(vm3))
				if took := time.Since(began); (err != nil) != c.refuse || took >= 2*time.Second {
					t.Errorf("%v after %s, want a refusal: %t", err, took, c.refuse)
				}
				time.Sleep(c.known)
			})
		})
	}
}

func TestUnreadableFiles(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no JSON": "x", "other version": `{"version": 2, "requireOwner": []}`,
		"other type": `{"version": 1, "owners": {}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			if err := os.WriteFile(f.state, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f.expect(t, vm3Call, vm3, "state is unreadable")
			f.expect(t, "db prepare begin -", vm3, "")
			f.expect(t, Probe+" prepare begin -", "", "cannot work: "+f.state)
			if err := os.WriteFile(f.Config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f.expect(t, "vm-3 reconnect begin -", vm3, "")
		})
	}
}

// Without a readable configuration the agent's state at its usual place decides. No other part of
// the configuration counts.
func TestUnreadableConfiguration(t *testing.T) {
	for name, text := range map[string]string{
		"no file": "", "no JSON": "x",
		"other version": `{"version": 2, "state": "elsewhere", "requireOwner": ["db"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fresh(func(s *State) { s.Owners = nil }))
			f.State = f.state
			err := os.Remove(f.Config)
			if text != "" {
				err = os.WriteFile(f.Config, []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.expect(t, vm3Call, vm3, "no launcher on this node declares it")
			f.expect(t, "db prepare begin -", vm3, "")
			if err := os.Remove(f.state); err != nil {
				t.Fatal(err)
			}
			f.expect(t, vm3Call, vm3, "")
			f.expect(t, "db prepare begin -", vm3, "")
		})
	}
}

func TestProcessAlive(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	var ticks uint64
	if _, err := fmt.Sscan(fields[19], &ticks); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pid   int
		ticks uint64
		want  bool
	}{
		{os.Getpid(), ticks, true}, {os.Getpid(), ticks + 1, false}, {1 << 22, ticks, false},
	} {
		if got, err := processAlive(c.pid, c.ticks); err != nil || got != c.want {
			t.Errorf("%+v: %t, %v", c, got, err)
		}
	}
	const line = "7 (a) b) c) %s 1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 70 0"
	for state, want := range map[string]bool{"S": true, "Z": false, "X": false} {
		if got, err := runs(fmt.Sprintf(line, state), 70); err != nil || got != want {
			t.Errorf("state %s: %t, %v", state, got, err)
		}
	}
	if _, err := runs("7 (a) S 1", 70); err == nil {
		t.Error("a short line has a start time")
	}
}

// A failed write leaves no file behind.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gate.json")
	if err := fresh(nil).Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(path)
	if err != nil || got.Version != Version || len(got.Owners) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := fresh(nil).Write(path); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}
