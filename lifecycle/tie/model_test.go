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

// tieModel is a tie to which anything happens in any order, with what a bystander
// would remember of it.
type tieModel struct {
	tie    tie.Tie
	now    host.Boottime
	steps  int
	serial int // makes processes that nobody has seen

	owner, gone bool
	goneAt      host.Boottime
	beat        tie.Heartbeat
	leaseUntil  host.Boottime // of the lease that ends last
	lease       host.Boottime // until when the one that is not the pod's holds
	podLease    host.Boottime
	asked, done bool // a stop was asked for and not confirmed; one was confirmed
	taker       tie.StopHandler

	everAsked, everHung bool
	unattended          map[host.Process]bool
	everStopUnattended  bool

	changed int            // the step that made all looks from before it worthless
	looks   map[uint64]int // by their step
	last    uint64         // look
	answer  uint64         // the look whose outcome this step is told; 0: none

	ends map[host.Process]*end
	past []tie.Action

	spared map[host.Process]bool // that were told to be stopped in enforce mode

	moves  map[move]bool // from one phase to another
	stages map[move]bool // of a VM process, likewise
	told   map[tie.Report]bool

	twin     *tie.Tie // the same tie in an agent that took over, to which the same happens
	twinLast uint64   // look of it
}

type move struct{ from, to string }

// end is what was done to end a VM process.
type end struct {
	grace host.Boottime // not over before
	hurry bool          // the guest cannot be waited for
	pod   bool          // its pod was asked
	asked bool          // libvirt was asked
	term  host.Boottime // not over before; 0: no SIGTERM
}

func newModel(t *rapid.T) *tieModel {
	terms := drawTerms(t)
	return &tieModel{
		tie: newTie(terms), now: booted, beat: tie.Heartbeat{At: booted},
		unattended: map[host.Process]bool{}, everStopUnattended: terms.StopUnattended,
		looks: map[uint64]int{}, ends: map[host.Process]*end{}, spared: map[host.Process]bool{},
		moves: map[move]bool{}, stages: map[move]bool{}, told: map[tie.Report]bool{},
	}
}

// The longest periods that are drawn.
const (
	maxGrace = 60 * time.Second
	maxTerm  = 20 * time.Second
	maxLease = 40 * time.Second
)

func drawSeconds(t *rapid.T, least int, most time.Duration, what string) time.Duration {
	return time.Duration(rapid.IntRange(least, int(most/time.Second)).Draw(t, what)) * time.Second
}

func drawTerms(t *rapid.T) tie.Terms {
	return tie.Terms{
		Enforce:        rapid.IntRange(0, 3).Draw(t, "enforce") > 0,
		GracePeriod:    drawSeconds(t, 1, maxGrace, "grace"),
		TermPeriod:     drawSeconds(t, 1, maxTerm, "term"),
		Watchdog:       drawSeconds(t, 0, 30*time.Second, "watchdog"),
		StopUnattended: rapid.Bool().Draw(t, "stop unattended"),
		StopHung:       rapid.Bool().Draw(t, "stop hung"),
		ProofOnly:      rapid.IntRange(0, 5).Draw(t, "proof only") == 0,
	}
}

// operations are what may happen to the tie at any time.
func (m *tieModel) operations() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"tick":          func(t *rapid.T) { m.step(t, ticked) },
		"due":           m.atDue,
		"owner starts":  func(t *rapid.T) { m.step(t, ownerStarted) },
		"owner ends":    m.ownerEnds,
		"vm starts":     func(t *rapid.T) { m.step(t, tie.VMStarted{VM: m.drawVM(t)}) },
		"vm ends":       func(t *rapid.T) { m.step(t, tie.VMEnded{Process: m.drawVM(t).Process}) },
		"stop asked":    m.stopAsked,
		"beaten":        func(t *rapid.T) { m.step(t, beaten) },
		"leased":        func(t *rapid.T) { m.step(t, leased(rapid.IntRange(-1, int(maxLease/time.Second)).Draw(t, "lease"))) },
		"pod leased":    func(t *rapid.T) { m.step(t, podLeased(rapid.IntRange(-1, int(maxLease/time.Second)).Draw(t, "lease"))) },
		"taker comes":   func(t *rapid.T) { m.step(t, tie.StopHandlerConnected{}) },
		"taker leaves":  m.takerLeaves,
		"looked":        m.looked,
		"all end":       m.allEnd,
		"action failed": m.actionFailed,
		"terms change":  func(t *rapid.T) { m.step(t, tie.TermsChanged{Terms: drawTerms(t)}) },
		"restart":       m.restart,
	}
}

// atDue ticks at the moment that the tie has asked for, as a timer would.
func (m *tieModel) atDue(t *rapid.T) {
	at, ok := m.tie.Due()
	if !ok {
		t.Skip("nothing is due")
	}
	m.now = max(m.now, at)
	m.stepNow(t, ticked)
}

// seldom makes what changes everything happen late enough for the rest.
func seldom(t *rapid.T) {
	if rapid.IntRange(0, 5).Draw(t, "seldom") > 0 {
		t.Skip("not now")
	}
}

func (m *tieModel) ownerEnds(t *rapid.T) {
	seldom(t)
	in := ownerEnded
	if rapid.Bool().Draw(t, "unseen") {
		in.LastSeen = m.now.Add(-drawSeconds(t, 0, 40*time.Second, "last seen"))
	}
	m.step(t, in)
}

func (m *tieModel) stopAsked(t *rapid.T) {
	seldom(t)
	m.step(t, stopAsked)
}

// drawVM returns a VM process of the tie, or one that nobody has seen.
func (m *tieModel) drawVM(t *rapid.T) tie.VM {
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

func (m *tieModel) looked(t *rapid.T) {
	in := tie.Scanned{ID: m.last - min(m.last, rapid.Uint64Range(0, 2).Draw(t, "late"))}
	if rapid.IntRange(0, 4).Draw(t, "finds") == 0 {
		in.Found = []tie.VM{m.drawVM(t)}
	}
	m.step(t, in)
}

// allEnd is how most stories go on: what runs has ended, and a look shows it.
func (m *tieModel) allEnd(t *rapid.T) {
	for _, v := range copied(m.tie).VMs {
		m.stepNow(t, tie.VMEnded{Process: v.Process})
	}
	m.stepNow(t, tie.Scanned{ID: m.last})
}

func (m *tieModel) actionFailed(t *rapid.T) {
	if len(m.past) == 0 {
		t.Skip("nothing was done yet")
	}
	a := rapid.SampledFrom(m.past).Draw(t, "action")
	m.step(t, tie.ActionFailed{Action: a, Err: errors.New("refused")})
}

// restart is what the tie goes through when its agent ends and another takes over.
// Looks of the one are unknown to the other.
func (m *tieModel) restart(t *rapid.T) {
	m.tie = restored(m.tie)
	m.looks, m.last = map[uint64]int{}, 0
	if !m.tie.Terms.ProofOnly {
		m.stepNow(t, tie.StopHandlerDisconnected{Wait: 15 * time.Second})
	}
}

func restored(stored tie.Tie) tie.Tie {
	text, err := json.Marshal(stored)
	if err != nil {
		panic(err)
	}
	var back tie.Tie
	if err := json.Unmarshal(text, &back); err != nil {
		panic(err)
	}
	back.Terms.ProofOnly = stored.Terms.ProofOnly // is for the reader to say
	return back
}

// copied copies all that a step could change, wherever it is.
func copied(original tie.Tie) tie.Tie {
	if original.LauncherProcess != nil {
		owner := *original.LauncherProcess
		original.LauncherProcess = &owner
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

func (m *tieModel) step(t *rapid.T, in tie.Input) {
	m.now = m.now.Add(drawSeconds(t, 0, 20*time.Second, "wait"))
	m.stepNow(t, in)
}

// stepNow steps the tie, and holds what comes of it to all that is promised.
func (m *tieModel) stepNow(t *rapid.T, in tie.Input) {
	before := copied(m.tie)
	next, actions := tie.Step(m.tie, m.now, in)
	again, same := tie.Step(copied(before), m.now, in)
	if !reflect.DeepEqual(before, m.tie) {
		t.Fatalf("%T has changed its argument:\n%+v\n%+v", in, before, m.tie)
	}
	if !reflect.DeepEqual(next, again) || !reflect.DeepEqual(actions, same) {
		t.Fatalf("%T twice, and two results:\n%+v %+v\n%+v %+v", in, next, actions, again, same)
	}
	m.stepTwin(t, in, next, actions)
	m.steps++
	m.answer = 0
	m.tie = next
	m.remember(before, in)
	for _, a := range actions {
		m.check(t, before, a)
		m.note(a)
	}
	m.checkState(t, before)
	m.noteMoves(before)
	m.past = append(m.past, actions...)
}

// remember takes in what has happened, as a bystander sees it.
func (m *tieModel) remember(before tie.Tie, in tie.Input) {
	switch in := in.(type) {
	case tie.LauncherStarted:
		if !m.owner && !m.beat.Seen {
			m.beat.At = m.now
		}
		m.owner = true
	case tie.LauncherEnded:
		if !m.gone {
			m.gone, m.changed, m.goneAt = true, m.steps, m.now
			if in.LastSeen != 0 {
				m.goneAt = in.LastSeen
			}
		} else {
			m.goneAt = max(m.goneAt, in.LastSeen)
		}
	case tie.StopRequested:
		if !m.asked {
			m.asked, m.everAsked, m.changed = true, true, m.steps
		}
	case tie.HeartbeatSeen:
		m.beat = tie.Heartbeat{Seen: true, At: m.now}
	case tie.LeaseSet:
		m.leased(in)
	case tie.StopHandlerConnected, tie.StopHandlerDisconnected:
		m.rememberTaker(in)
	case tie.VMStarted:
		m.unattended[in.VM.Process] = m.unattended[in.VM.Process] || m.done || m.silent()
	case tie.Scanned:
		m.answer = in.ID
		for _, v := range in.Found {
			m.unattended[v.Process] = m.unattended[v.Process] || m.done
		}
	case tie.ActionFailed:
		if a, ok := in.Action.(tie.ShutdownByLibvirt); ok && m.ends[a.VM.Process] != nil {
			m.ends[a.VM.Process].hurry = true
		}
	}
	m.everStopUnattended = m.everStopUnattended || m.tie.Terms.StopUnattended
	m.everHung = m.everHung || m.owner && m.expired() && m.tie.Terms.StopHung
	if !slices.EqualFunc(before.VMs, m.tie.VMs, func(a, b tie.VM) bool { return a.Process == b.Process }) {
		m.changed = m.steps
	}
	dropped := !m.tie.Terms.Enforce && !m.handsOff()
	maps.DeleteFunc(m.ends, func(p host.Process, _ *end) bool { return dropped || m.vm(p) == nil })
}

// leased: each lease is its own, but that the pod's ends with the other.
func (m *tieModel) leased(in tie.LeaseSet) {
	until := m.now.Add(max(in.Period, 0))
	if !in.ByPod {
		m.lease = until
	}
	if in.ByPod || in.Period <= 0 {
		m.podLease = until
	}
	m.leaseUntil = max(m.lease, m.podLease)
}

func (m *tieModel) expired() bool {
	return m.tie.Terms.Watchdog > 0 && m.now.Sub(m.beat.At) > m.tie.Terms.Watchdog
}

// handsOff is set where proof is demanded, and there is none.
func (m *tieModel) handsOff() bool { return m.tie.Terms.ProofOnly && !m.gone }

func (m *tieModel) silent() bool { return m.tie.Terms.Watchdog > 0 && (!m.beat.Seen || m.expired()) }

func (m *tieModel) vm(p host.Process) *tie.VM { return vmOf(m.tie, p) }

func vmOf(current tie.Tie, p host.Process) *tie.VM {
	at := slices.IndexFunc(current.VMs, func(v tie.VM) bool { return v.Process == p })
	if at < 0 {
		return nil
	}
	return &current.VMs[at]
}

// note takes in what is done.
func (m *tieModel) note(a tie.Action) {
	switch a := a.(type) {
	case tie.RequestScan:
		m.looks[a.ID], m.last = m.steps, a.ID
	case tie.ConfirmStop:
		m.asked, m.done = false, true
	case tie.Report:
		m.told[tie.Report{Type: a.Type, Reason: a.Reason}] = true
		m.noteSpared(a)
	case tie.ShutdownByPod:
		m.end(a.VM.Process).pod = true
	case tie.ShutdownByLibvirt:
		m.end(a.VM.Process).asked = true
	case tie.Terminate:
		m.end(a.VM.Process).term = m.now.Add(m.tie.Terms.TermPeriod)
	}
}

// noteSpared takes in which VM processes would be stopped.
func (m *tieModel) noteSpared(a tie.Report) {
	for _, v := range m.tie.VMs {
		if a.Reason == agentapi.ReasonWouldStop && v.PID == a.PID {
			m.spared[v.Process] = true
		}
	}
}

// noteMoves takes in what has moved.
func (m *tieModel) noteMoves(before tie.Tie) {
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

func (m *tieModel) end(p host.Process) *end {
	if m.ends[p] == nil {
		m.ends[p] = &end{}
	}
	return m.ends[p]
}
