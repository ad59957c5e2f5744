package cli

import (
	"fmt"
	"io"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
)

// libvirtUnlimited is libvirt's value for no limit (VIR_DOMAIN_MEMORY_PARAM_UNLIMITED). It also is
// a safe value for a program that ignores the field unlimited.
const libvirtUnlimited = 9007199254740991

// memlockJSON is the output of `memlock -o json`: a stable contract.
type memlockJSON struct {
	Verdict    memlock.Verdict `json:"verdict"`
	LimitBytes *int64          `json:"limitBytes"` // null: none needed, or no lower bound known
	Unlimited  bool            `json:"unlimited"`
	// never null; their sum is limitBytes, unless unlimited
	Terms   []memlockTermJSON `json:"terms"`
	Reason  string            `json:"reason"`
	Unknown []string          `json:"unknown"` // never null; why limitBytes is a lower bound

	KubeVirt *ownLocksJSON `json:"kubevirt"` // null: no VMI, or KubeVirt sets no limit
}

// ownLocksJSON are KubeVirt's own limits. The unlimited one is libvirtUnlimited.
type ownLocksJSON struct {
	StartBytes   int64 `json:"startBytes"`   // for libvirt when it starts the VM
	RunningBytes int64 `json:"runningBytes"` // for the running QEMU
}

type memlockTermJSON struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func newMemlockJSON(r memlockAnswer) memlockJSON {
	out := memlockJSON{Verdict: r.Verdict(), Unlimited: r.Unlimited, Terms: []memlockTermJSON{},
		Reason: r.Reason, Unknown: append([]string{}, r.Unknown...)}
	if r.Required {
		limit := bytesOf(r.Result)
		out.LimitBytes = &limit
	}
	if r.own != nil {
		out.KubeVirt = &ownLocksJSON{bytesOf(r.own.start), bytesOf(r.own.running)}
	}
	for _, t := range r.Terms {
		out.Terms = append(out.Terms, memlockTermJSON(t))
	}
	return out
}

// bytesOf returns a required limit in bytes.
func bytesOf(r memlock.Result) int64 {
	if r.Unlimited {
		return libvirtUnlimited
	}
	return r.Bytes
}

func writeMemlock(w io.Writer, r memlockAnswer) error {
	rows := [][]string{{"Limit:", r.String()}}
	if r.own != nil {
		rows = append(rows, []string{"KubeVirt:", r.own.String()})
	}
	rows = append(rows, []string{"Reason:", r.Reason})
	if err := table(w, rows); err != nil || len(r.Terms) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nThe sum of:")
	rows = rows[:0]
	for _, t := range r.Terms {
		rows = append(rows, []string{"  " + t.Name, api.Bytes(t.Bytes).String()})
	}
	return table(w, rows)
}

// String writes KubeVirt's own limits. Versions up to 1.7 set another one later.
func (o *ownLocks) String() string {
	if o.start.String() == o.running.String() {
		return "sets " + o.start.String()
	}
	return fmt.Sprintf("sets %s at the start, %s later", o.start, o.running)
}
