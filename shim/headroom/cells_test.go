package headroom_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/headroom"
)

func TestCells(t *testing.T) {
	const memory = "memory='512' unit='MiB'"
	topology := "<topology sockets='2' cores='2' threads='1'/>"
	for _, c := range []struct {
		before, after string
		capacity      int
	}{
		{
			"cpus='0-1' " + memory + "/><cell cpus='2-3' " + memory,
			"cpus='0-1,4-7' " + memory + "/><cell cpus='2-3,8-11' " + memory,
			12,
		},
		{
			"cpus='0,2' " + memory + "/><cell cpus='1,3' " + memory,
			"cpus='0,2' " + memory + "/><cell cpus='1,3-5' " + memory,
			7,
		},
		{memory + "/><cell id='1' " + memory, memory + " cpus='0-5'/><cell id='1' " + memory, 6},
		{
			"cpus='0-3' " + memory + "/><cell " + memory,
			"cpus='0-5' " + memory + "/><cell " + memory,
			6,
		},
		{"cpus='0-3' memAccess='shared' " + memory, "cpus='0-5' memAccess='shared' " + memory, 6},
	} {
		text := guest(
			"<vcpu>4</vcpu>", "<cpu>"+topology+"<numa><cell "+c.before+"/></numa></cpu>", "",
		)
		got := prepare(t, text, headroom.Options{Memory: 1, CPUs: c.capacity})
		if !strings.Contains(string(got.XML), "<cell "+c.after+"/></numa>") {
			t.Errorf("%+v:\n%s", c, got.XML)
		}
	}
}

// New vCPUs are added to a list of single vCPUs.
func TestListedVCPUs(t *testing.T) {
	listed := "<vcpus>\n    <vcpu id='0' enabled='yes' hotpluggable='no' order='1'/>\n    <vcpu " +
		"id='1' enabled='yes' hotpluggable='no' order='2'/>"
	text := guest(twoVCPUs+"\n  "+listed+"\n  </vcpus>", "<cpu/>", "")
	added := "\n    <vcpu id='2' enabled='no' hotpluggable='yes'/>\n    <vcpu id='3' " +
		"enabled='no' hotpluggable='yes'/>"
	want := replaced(t, text, "static'>2<", "static' current='2'>4<", listed, listed+added)
	diff := cmp.Diff(want, string(prepare(t, text, headroom.Options{Memory: 1, CPUs: 4}).XML))
	if diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
