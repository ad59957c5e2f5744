package tie_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// model drives a tie with random events. It keeps its own record of events and actions, and
// compares the tie with it.
type model struct {
	tie    tie.Tie
	now    host.Boottime
	steps  int
	serial int // numbers new processes

	launcherStarted, launcherGone bool
	goneAt                        host.Boottime
	heartbeat                     tie.Heartbeat
	leaseUntil                    host.Boottime // end of the last lease
	lease                         host.Boottime // end of the other lease
	goneSeen                      host.Boottime // first LauncherEnded; 0: none
	podLease                      host.Boottime
	stopRequested, stopConfirmed  bool
	stopHandler                   tie.StopHandler

	everRequested, everHung bool
	unattended              map[host.Process]bool
	everStopUnattended      bool

	lastChange   int            // the step that made all earlier scans void
	scans        map[uint64]int // step of each requested scan
	lastScan     uint64
	answeredScan uint64 // the scan with the result of this step; 0: none

	stops       map[host.Process]*stopRecord
	pastActions []tie.Action

	wouldStop map[host.Process]bool // with an Event WouldStop

	moves    map[move]bool // between phases
	stages   map[move]bool // between stages of a VM process
	reported map[tie.Report]bool

	twin     *tie.Tie // a restored copy of the tie, with the same events
	twinScan uint64   // its last requested scan
}

type move struct{ from, to string }

// fail records the failure of a request to libvirt. libvirt has failed after a final failure, or
// three failures, without a request before that may have succeeded.
func (e *stopRecord) fail(request int, final bool) {
	if e.failed == nil {
		e.failed = map[int]bool{}
	}
	e.failed[request] = e.failed[request] || final
	for n := 1; n <= 3; n++ {
		final, failed := e.failed[n]
		if !failed {
			return
		}
		e.libvirtFailed = e.libvirtFailed || final || n == 3
	}
}

// stopRecord has the actions that stop a VM process.
type stopRecord struct {
	grace          host.Boottime // earliest end of the grace period
	libvirtFailed  bool          // no guest got a request, and a retry is useless
	asks           int
	failed         map[int]bool // requests, true after a final failure
	podRequest     bool
	libvirtRequest bool
	libvirtAgain   host.Boottime // earliest time of the next request
	term           host.Boottime // earliest end of the term period; 0: no SIGTERM
}

func newModel(t *rapid.T) *model {
	terms := drawTerms(t)
	return &model{
		tie: newTie(terms), now: booted, heartbeat: tie.Heartbeat{At: booted},
		unattended: map[host.Process]bool{}, everStopUnattended: terms.StopUnattended,
		scans: map[uint64]int{}, stops: map[host.Process]*stopRecord{},
		wouldStop: map[host.Process]bool{},
		moves:     map[move]bool{}, stages: map[move]bool{}, reported: map[tie.Report]bool{},
	}
}

// The longest random periods.
const (
	maxGrace = 10 * time.Minute
	maxTerm  = 20 * time.Second
	maxLease = 40 * time.Second

	maxPodLease = 8 * time.Minute
	leastGrace  = 3 * time.Minute // of a guest after a lease of its pod
)

func drawSeconds(t *rapid.T, least int, most time.Duration, label string) time.Duration {
	return time.Duration(rapid.IntRange(least, int(most/time.Second)).Draw(t, label)) * time.Second
}

// drawGrace returns mostly short periods.
func drawGrace(t *rapid.T) time.Duration {
	if rapid.IntRange(0, 3).Draw(t, "long grace") == 0 {
		return drawSeconds(t, 60, maxGrace, "grace")
	}
	return drawSeconds(t, 1, time.Minute, "grace")
}

func drawTerms(t *rapid.T) tie.Terms {
	return tie.Terms{
		Enforce:        rapid.IntRange(0, 3).Draw(t, "enforce") > 0,
		GracePeriod:    drawGrace(t),
		TermPeriod:     drawSeconds(t, 1, maxTerm, "term"),
		Watchdog:       drawSeconds(t, 0, 30*time.Second, "watchdog"),
		StopUnattended: rapid.Bool().Draw(t, "stop unattended"),
		StopHung:       rapid.Bool().Draw(t, "stop hung"),
		ProofOnly:      rapid.IntRange(0, 5).Draw(t, "proof only") == 0,
	}
}

// operations are the random events.
func (m *model) operations() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"time passes":     func(t *rapid.T) { m.step(t, timePassed) },
		"due":             m.atDue,
		"launcher starts": func(t *rapid.T) { m.step(t, launcherStarted) },
		"launcher ends":   m.endLauncher,
		"VM starts":       func(t *rapid.T) { m.step(t, tie.VMStarted{VM: m.drawVM(t)}) },
		"VM ends": func(t *rapid.T) {
			m.step(t, tie.VMEnded{Process: m.drawVM(t).Process})
		},
		"VM reassigned": func(t *rapid.T) {
			m.step(t, tie.VMReassigned{Process: m.drawVM(t).Process})
		},
		"stop request":         m.requestStop,
		"heartbeat":            func(t *rapid.T) { m.step(t, heartbeat) },
		"lease":                func(t *rapid.T) { m.step(t, lease(drawLease(t, maxLease))) },
		"pod lease":            func(t *rapid.T) { m.step(t, podLease(drawLease(t, maxPodLease))) },
		"handler connects":     func(t *rapid.T) { m.step(t, tie.StopHandlerConnected{}) },
		"handler disconnects":  m.disconnectHandler,
		"scan":                 m.scan,
		"all VM processes end": m.endAll,
		"action fails":         m.failAction,
		"terms change": func(t *rapid.T) {
			m.step(t, tie.TermsChanged{Terms: drawTerms(t)})
		},
		"restart": m.restart,
	}
}

func drawLease(t *rapid.T, most time.Duration) (seconds int) {
	return rapid.IntRange(-1, int(most/time.Second)).Draw(t, "lease")
}

// atDue lets time pass until the tie's next due time.
func (m *model) atDue(t *rapid.T) {
	at, ok := m.tie.Due()
	if !ok {
		t.Skip("nothing is due")
	}
	m.now = max(m.now, at)
	m.stepNow(t, timePassed)
}

// rarely skips most calls, so that an event with large effects comes late.
func rarely(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "rarely") > 0 {
		t.Skip("not now")
	}
}

func (m *model) endLauncher(t *rapid.T) {
	rarely(t)
	in := launcherEnded
	if rapid.Bool().Draw(t, "unseen") {
		in.LastSeen = m.now.Add(-drawSeconds(t, 0, 40*time.Second, "last seen"))
	}
	m.step(t, in)
}

func (m *model) requestStop(t *rapid.T) {
	rarely(t)
	m.step(t, stopRequested)
}

// drawVM returns a VM process of the tie, or a new one.
func (m *model) drawVM(t *rapid.T) tie.VM {
	at := rapid.IntRange(-1, len(m.tie.VMs)-1).Draw(t, "vm")
	if at >= 0 {
		return m.tie.VMs[at]
	}
	m.serial++
	vm := podVM(7 + m.serial%3)
	if rapid.Bool().Draw(t, "node-level") {
		vm = nodeVM(vm.PID)
	}
	vm.StartTime = uint64(m.serial)
	return vm
}

func (m *model) scan(t *rapid.T) {
	in := tie.Scanned{ID: m.lastScan - min(m.lastScan, rapid.Uint64Range(0, 2).Draw(t, "late"))}
	if rapid.IntRange(0, 4).Draw(t, "finds") == 0 {
		in.Found = []tie.VM{m.drawVM(t)}
	}
	m.step(t, in)
}

// endAll ends all VM processes and applies the last requested scan.
func (m *model) endAll(t *rapid.T) {
	for _, v := range deepCopy(m.tie).VMs {
		m.stepNow(t, tie.VMEnded{Process: v.Process})
	}
	m.stepNow(t, tie.Scanned{ID: m.lastScan})
}

func (m *model) failAction(t *rapid.T) {
	if len(m.pastActions) == 0 {
		t.Skip("no action yet")
	}
	a := rapid.SampledFrom(m.pastActions).Draw(t, "action")
	m.step(t, tie.ActionFailed{Action: a, Err: errors.New("refused"),
		Final: rapid.Bool().Draw(t, "final")})
}

// restart stores and loads the tie, as a new agent does. It forgets all scans.
func (m *model) restart(t *rapid.T) {
	m.tie = storeAndLoad(m.tie)
	m.scans, m.lastScan = map[uint64]int{}, 0
	if !m.tie.Terms.ProofOnly {
		m.stepNow(t, tie.StopHandlerDisconnected{Wait: 15 * time.Second})
	}
}

func storeAndLoad(stored tie.Tie) tie.Tie {
	text, err := json.Marshal(stored)
	if err != nil {
		panic(err)
	}
	var back tie.Tie
	if err := json.Unmarshal(text, &back); err != nil {
		panic(err)
	}
	back.Terms.ProofOnly = stored.Terms.ProofOnly // not stored: the reader sets it
	return back
}

// deepCopy copies all data that a step could change.
func deepCopy(original tie.Tie) tie.Tie {
	if original.LauncherProcess != nil {
		process := *original.LauncherProcess
		original.LauncherProcess = &process
	}
	original.VMs = slices.Clone(original.VMs)
	for i, v := range original.VMs {
		if v.Domain != nil {
			domain := *v.Domain
			original.VMs[i].Domain = &domain
		}
	}
	return original
}

func (m *model) step(t *rapid.T, in tie.Input) {
	m.now = m.now.Add(drawSeconds(t, 0, 20*time.Second, "wait"))
	m.stepNow(t, in)
}

// stepNow steps the tie and checks the result.
func (m *model) stepNow(t *rapid.T, in tie.Input) {
	before := deepCopy(m.tie)
	next, actions := tie.Step(m.tie, m.now, in)
	again, same := tie.Step(deepCopy(before), m.now, in)
	if !reflect.DeepEqual(before, m.tie) {
		t.Fatalf("%T changed its argument:\n%+v\n%+v", in, before, m.tie)
	}
	if !reflect.DeepEqual(next, again) || !reflect.DeepEqual(actions, same) {
		t.Fatalf("%T gave two results:\n%+v %+v\n%+v %+v", in, next, actions, again, same)
	}
	m.stepTwin(t, in, next, actions)
	m.steps++
	m.answeredScan = 0
	m.tie = next
	m.observe(before, in)
	for _, a := range actions {
		m.check(t, before, a)
		m.record(a)
	}
	m.checkState(t, before)
	m.recordMoves(before)
	m.pastActions = append(m.pastActions, actions...)
}

// observe records an event.
func (m *model) observe(before tie.Tie, in tie.Input) {
	switch in := in.(type) {
	case tie.LauncherStarted:
		if !m.launcherStarted && !m.heartbeat.Seen {
			m.heartbeat.At = m.now
		}
		m.launcherStarted = true
	case tie.LauncherEnded:
		if !m.launcherGone {
			m.launcherGone, m.lastChange, m.goneAt = true, m.steps, m.now
			if in.LastSeen != 0 {
				m.goneAt = in.LastSeen
			}
		} else {
			m.goneAt = max(m.goneAt, in.LastSeen)
		}
	case tie.StopRequested:
		if !m.stopRequested {
			m.stopRequested, m.everRequested, m.lastChange = true, true, m.steps
		}
	case tie.HeartbeatSeen:
		m.heartbeat = tie.Heartbeat{Seen: true, At: m.now}
	case tie.LeaseSet:
		m.setLease(in)
	case tie.StopHandlerConnected, tie.StopHandlerDisconnected:
		m.observeHandler(in)
	case tie.VMStarted:
		m.unattended[in.VM.Process] = m.unattended[in.VM.Process] || m.stopConfirmed ||
			m.heartbeatMissing()
	case tie.Scanned:
		m.answeredScan = in.ID
		for _, v := range in.Found {
			m.unattended[v.Process] = m.unattended[v.Process] || m.stopConfirmed
		}
	case tie.ActionFailed:
		a, ok := in.Action.(tie.ShutdownByLibvirt)
		e := m.stops[a.VM.Process]
		if ok && e != nil && a.VM.Asks >= 1 && a.VM.Asks <= e.asks {
			e.fail(a.VM.Asks, in.Final)
		}
	}
	if _, ok := in.(tie.LauncherEnded); ok && m.goneSeen == 0 {
		m.goneSeen = m.now
	}
	m.everStopUnattended = m.everStopUnattended || m.tie.Terms.StopUnattended
	m.everHung = m.everHung || m.launcherStarted && m.heartbeatExpired() && m.tie.Terms.StopHung
	same := func(a, b tie.VM) bool { return a.Process == b.Process }
	if !slices.EqualFunc(before.VMs, m.tie.VMs, same) {
		m.lastChange = m.steps
	}
	dropped := !m.tie.Terms.Enforce && !m.lacksProof()
	maps.DeleteFunc(m.stops, func(p host.Process, _ *stopRecord) bool {
		return dropped || m.vm(p) == nil
	})
}

// setLease records a lease. The end of the other lease also ends the pod's.
func (m *model) setLease(in tie.LeaseSet) {
	until := m.now.Add(max(in.Period, 0))
	if !in.ByPod {
		m.lease = until
	}
	if in.ByPod || in.Period <= 0 {
		m.podLease = until
	}
	m.leaseUntil = max(m.lease, m.podLease)
}

func (m *model) heartbeatExpired() bool {
	return m.tie.Terms.Watchdog > 0 && m.now.Sub(m.heartbeat.At) > m.tie.Terms.Watchdog
}

// lacksProof is set if a required proof is missing.
func (m *model) lacksProof() bool { return m.tie.Terms.ProofOnly && !m.launcherGone }

func (m *model) heartbeatMissing() bool {
	return m.tie.Terms.Watchdog > 0 && (!m.heartbeat.Seen || m.heartbeatExpired())
}

func (m *model) vm(p host.Process) *tie.VM { return vmOf(m.tie, p) }

func vmOf(current tie.Tie, p host.Process) *tie.VM {
	at := slices.IndexFunc(current.VMs, func(v tie.VM) bool { return v.Process == p })
	if at < 0 {
		return nil
	}
	return &current.VMs[at]
}

// record records an action.
func (m *model) record(a tie.Action) {
	switch a := a.(type) {
	case tie.RequestScan:
		m.scans[a.ID], m.lastScan = m.steps, a.ID
	case tie.ConfirmStop:
		m.stopRequested, m.stopConfirmed = false, true
	case tie.Report:
		m.reported[tie.Report{Type: a.Type, Reason: a.Reason}] = true
		m.recordWouldStop(a)
	case tie.ShutdownByPod:
		m.stopOf(a.VM.Process).podRequest = true
	case tie.ShutdownByLibvirt:
		m.stopOf(a.VM.Process).libvirtRequest = true
		m.stopOf(a.VM.Process).asks++
		m.stopOf(a.VM.Process).libvirtAgain = m.now.Add(10 * time.Second)
	case tie.Terminate:
		m.stopOf(a.VM.Process).term = m.now.Add(m.tie.Terms.TermPeriod)
	}
}

// recordWouldStop records the VM process of an Event WouldStop.
func (m *model) recordWouldStop(a tie.Report) {
	for _, v := range m.tie.VMs {
		if a.Reason == agentapi.ReasonWouldStop && v.PID == a.PID {
			m.wouldStop[v.Process] = true
		}
	}
}

// recordMoves records the changes of phases and stages.
func (m *model) recordMoves(before tie.Tie) {
	if before.Phase != m.tie.Phase {
		m.moves[move{string(before.Phase), string(m.tie.Phase)}] = true
	}
	for _, v := range m.tie.VMs {
		was := tie.StageNone
		if b := vmOf(before, v.Process); b != nil {
			was = b.Stage
		}
		if was != v.Stage {
			m.stages[move{stageNames[was], stageNames[v.Stage]}] = true
		}
	}
}

func (m *model) stopOf(p host.Process) *stopRecord {
	if m.stops[p] == nil {
		m.stops[p] = &stopRecord{}
	}
	return m.stops[p]
}
