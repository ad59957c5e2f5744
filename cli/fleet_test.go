package cli

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// TestFaultyStateOfANode gives one node a state that no agent writes, as a compromised node may. The
// launchers of the other nodes stay visible.
func TestFaultyStateOfANode(t *testing.T) {
	state := func(start int64) *v1alpha1.NodeState {
		s := &v1alpha1.NodeState{}
		l := v1alpha1.LauncherReport{VMs: []v1alpha1.VMReport{{PID: 1, StartTime: start}}}
		l.Pod.Name = "vm"
		s.Status.Launchers = []v1alpha1.LauncherReport{l}
		return s
	}
	f := &fleet{nodes: []fleetNode{
		{name: "bad", answer: answerReady, state: state(-1)},
		{name: "good", answer: answerReady, state: state(1)},
	}}
	v := f.view("")
	if len(v.launchers) != 1 || v.launchers[0].Node != "good" {
		t.Errorf("launchers %+v", v.launchers)
	}
	if len(v.notes) != 1 || !strings.Contains(v.notes[0], "unreadable state of node bad") {
		t.Errorf("notes %q", v.notes)
	}
}
