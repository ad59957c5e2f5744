package resize

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Report tells what a run did and what the VM is after it.
type Report struct {
	Target target.Target `json:"target"`

	// Plan is what each step does, in order: those that were begun, and those that were
	// planned last.
	Plan  []string     `json:"plan,omitempty"`
	Steps []StepReport `json:"steps"`
	Notes []string     `json:"notes,omitempty"`

	// AsWanted is set if the VM is as it is wanted, and Actual what it is; nil if that
	// could not be read.
	TargetReached bool    `json:"asWanted"`
	Actual        *Actual `json:"actual,omitempty"`

	Error string `json:"error,omitempty"`
}

// StepReport tells of one step.
type StepReport struct {
	Description string        `json:"what"`
	Rollback    bool          `json:"undo,omitempty"` // it takes back another
	Started     time.Time     `json:"started"`
	Took        time.Duration `json:"took"`
	Error       string        `json:"error,omitempty"` // it was not confirmed; empty: it was
}

// Actual is what a VM really is. Amounts are bytes.
type Actual struct {
	Memory   uint64 `json:"memory"`   // what the guest has
	Possible uint64 `json:"possible"` // what it can take without being asked again

	VCPUs  int           `json:"vcpus"`
	Online int           `json:"online"` // virt.Unknown: nobody can tell, or was asked: vCPUs were left alone
	Period time.Duration `json:"period"`
	Quota  time.Duration `json:"quota"` // or virt.Unlimited
	Shares uint64        `json:"shares,omitempty"`

	PodMax       uint64 `json:"podMax"`
	ContainerMax uint64 `json:"containerMax"`
	Lock         uint64 `json:"lock"`
	Locked       uint64 `json:"locked"`
}

// Actual sums up what a VM is.
func (o Observed) Actual() Actual {
	d, s := o.Domain, o.Limits
	return Actual{
		Memory: o.GuestMemory(), Possible: o.PossibleMemory(),
		VCPUs: d.VCPUs.Plugged, Online: d.VCPUs.Online, Period: d.Bandwidth.Period, Quota: d.Bandwidth.Quota, Shares: d.Bandwidth.Shares,
		PodMax: s.PodMax, ContainerMax: s.ContainerMax, Lock: s.Lock, Locked: s.Locked,
	}
}

// progress tells how far the run is.
func (u *run) reportProgress() {
	if u.Progress == nil {
		return
	}
	report := u.report
	report.Steps = slices.Clone(report.Steps)
	u.Progress(report)
}

// errText is the text of an error, or nothing.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
