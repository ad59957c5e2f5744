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
}

type memlockTermJSON struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func newMemlockJSON(r memlock.Result) memlockJSON {
	out := memlockJSON{Verdict: r.Verdict(), Unlimited: r.Unlimited, Terms: []memlockTermJSON{},
		Reason: r.Reason, Unknown: append([]string{}, r.Unknown...)}
	if r.Required {
		out.LimitBytes = &r.Bytes
	}
	if r.Unlimited {
		limit := int64(libvirtUnlimited)
		out.LimitBytes = &limit
	}
	for _, t := range r.Terms {
		out.Terms = append(out.Terms, memlockTermJSON(t))
	}
	return out
}

func writeMemlock(w io.Writer, r memlock.Result) error {
	rows := [][]string{{"Limit:", r.String()}, {"Reason:", r.Reason}}
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
