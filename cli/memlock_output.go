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
	LimitBytes *int64 `json:"limitBytes"` // null: no limit needed
	Unlimited  bool   `json:"unlimited"`
	// never null; their sum is limitBytes, unless unlimited
	Terms  []memlockTermJSON `json:"terms"`
	Reason string            `json:"reason"`
}

type memlockTermJSON struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func newMemlockJSON(r memlock.Result) memlockJSON {
	out := memlockJSON{Unlimited: r.Unlimited, Terms: []memlockTermJSON{}, Reason: r.Reason}
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
	rows := [][]string{{"Limit:", limitText(r)}, {"Reason:", r.Reason}}
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

func limitText(r memlock.Result) string {
	switch {
	case !r.Required:
		return "none needed"
	case r.Unlimited:
		return api.Unlimited
	}
	bytes := fmt.Sprintf("%d bytes", r.Bytes)
	if text := api.Bytes(r.Bytes).String(); text != fmt.Sprint(r.Bytes) {
		return fmt.Sprintf("%s (%s)", text, bytes)
	}
	return fmt.Sprintf("%s (%.2f GiB)", bytes, float64(r.Bytes)/(1<<30))
}
