package resize

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Report is the result of a run and the actual size of the VM after it.
type Report struct {
	Target target.Target `json:"target"`

	// Plan describes the steps in order: the started ones, and the rest of the latest plan.
	Plan  []string     `json:"plan,omitempty"`
	Steps []StepReport `json:"steps"`
	Notes []string     `json:"notes,omitempty"`

	// TargetReached reports whether the VM has the desired size. Actual is the VM's size after the
	// run, or nil if it could not be read.
	TargetReached bool    `json:"asWanted"`
	Actual        *Actual `json:"actual,omitempty"`

	Error string `json:"error,omitempty"`
}

// StepReport reports one step.
type StepReport struct {
	Description string        `json:"what"`
	Rollback    bool          `json:"undo,omitempty"` // the step rolls back another one
	Started     time.Time     `json:"started"`
	Took        time.Duration `json:"took"`
	Error       string        `json:"error,omitempty"` // "": the step was confirmed
}

// Actual is the actual size of a VM. Amounts are bytes.
type Actual struct {
	Memory   uint64 `json:"memory"`   // of the guest
	Possible uint64 `json:"possible"` // see Observed.PossibleMemory

	VCPUs  int           `json:"vcpus"`
	Online int           `json:"online"` // virt.Unknown: no answer or no query
	Period time.Duration `json:"period"`
	Quota  time.Duration `json:"quota"` // or virt.Unlimited
	Shares uint64        `json:"shares,omitempty"`

	PodMax       uint64 `json:"podMax"`
	ContainerMax uint64 `json:"containerMax"`
	Lock         uint64 `json:"lock"`
	Locked       uint64 `json:"locked"`
}

// Actual extracts the actual size.
func (o Observed) Actual() Actual {
	d, s := o.Domain, o.Limits
	return Actual{
		Memory:       o.GuestMemory(),
		Possible:     o.PossibleMemory(),
		VCPUs:        d.VCPUs.Plugged,
		Online:       d.VCPUs.Online,
		Period:       d.Bandwidth.Period,
		Quota:        d.Bandwidth.Quota,
		Shares:       d.Bandwidth.Shares,
		PodMax:       s.PodMax,
		ContainerMax: s.ContainerMax,
		Lock:         s.Lock,
		Locked:       s.Locked,
	}
}

// reportProgress passes the report so far to Progress.
func (u *run) reportProgress() {
	if u.Progress == nil {
		return
	}
	report := u.report
	report.Steps = slices.Clone(report.Steps)
	u.Progress(report)
}

// errText returns the text of an error, or "".
func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
