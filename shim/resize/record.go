package resize

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Phase is the phase of a run.
type Phase string

// The phases of a run.
const (
	Running     Phase = "running" // steps are executed
	RollingBack Phase = "undoing" // started steps are rolled back
	Ended       Phase = "ended"   // the report has the result
)

// Record is the journal's record of a run. With it a later shim can finish the run or roll it back.
type Record struct {
	Domain string        `json:"domain"`          // UUID
	Start  string        `json:"start,omitempty"` // [Limits].Start of the VM; empty: unknown
	Target target.Target `json:"target"`
	Phase  Phase         `json:"phase"`

	// Steps are the steps of all plans of the run. The first Started of them may have taken effect,
	// and the first Confirmed have.
	Steps     Steps `json:"steps"`
	Started   int   `json:"begun"`
	Confirmed int   `json:"confirmed"`

	Report *Report `json:"report,omitempty"` // set in phase Ended
}

// Journal keeps the Record of the last run.
type Journal interface {
	// Load returns the record, or ErrNoRecord. Any other error concerns an unreadable record, which
	// Load has moved away.
	Load() (Record, error)

	// Store replaces the record. After its return the new record survives a crash. If Store fails,
	// the journal has the old or the new record.
	Store(Record) error
}

// ErrNoRecord is the error of an empty journal.
var ErrNoRecord = errors.New("the journal has no record")

// recordVersion is the version of the record's JSON.
const recordVersion = 2

// maxSteps bounds the steps of a record. A run has more only if its target changes many times. The
// oldest steps then lose their rollback.
const maxSteps = 100

// versionedRecord wraps a record. The version decides how to decode the record.
type versionedRecord struct {
	Version int             `json:"version"`
	Record  json.RawMessage `json:"record"`
}

// Encode returns the record as JSON with its version.
func (r Record) Encode() ([]byte, error) {
	record, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record of a resize: %w", err)
	}
	return json.Marshal(versionedRecord{recordVersion, record})
}

// DecodeRecord decodes the output of Encode. It rejects other versions, unknown fields, kinds of
// steps and phases, and inconsistent counts.
func DecodeRecord(text []byte) (Record, error) {
	var s versionedRecord
	var r Record
	if err := decodeStrict(text, &s); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	if s.Version != recordVersion {
		return Record{}, fmt.Errorf(
			"record of a resize: version %d: want %d", s.Version, recordVersion,
		)
	}
	if err := decodeStrict(s.Record, &r); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	if err := r.check(); err != nil {
		return Record{}, fmt.Errorf("record of a resize: %w", err)
	}
	return r, nil
}

func (r Record) check() error {
	switch r.Phase {
	case Running, RollingBack, Ended:
	default:
		return fmt.Errorf("phase %q: want %s, %s or %s", r.Phase, Running, RollingBack, Ended)
	}
	if n := len(r.Steps); n > 2*maxSteps {
		return fmt.Errorf("steps: %d: want at most %d", n, 2*maxSteps)
	}
	if r.Confirmed < 0 || r.Started < r.Confirmed || len(r.Steps) < r.Started {
		return fmt.Errorf(
			"%d steps started and %d confirmed of %d: want confirmed <= started <= all", r.Started,
			r.Confirmed, len(r.Steps),
		)
	}
	if r.Phase == Ended && r.Report == nil {
		return errors.New("report: missing for an ended run")
	}
	return nil
}

// End ends the record of a run that will not continue.
func (r *Record) End(reason string) {
	r.Phase, r.Report = Ended, &Report{Target: r.Target, Error: reason}
}

// replacePlan replaces all steps that have not started.
func (r *Record) replacePlan(p Plan) {
	started := r.Steps[:r.Started]
	if drop := len(started) - maxSteps; drop > 0 {
		started = started[drop:]
	}
	r.Steps = append(append(Steps{}, started...), p.Steps...)
	r.Started, r.Confirmed = len(started), min(r.Confirmed, len(started))
	r.Target, r.Phase, r.Report = p.Target, Running, nil
}
